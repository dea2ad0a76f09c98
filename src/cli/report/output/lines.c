/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gf_lines_add(struct gf_lines *lines, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        return;
    char **list = reallocarray(lines->list, lines->count + 1, sizeof(*list));
    bool known = !list;
    if (list)
        lines->list = list;
    for (size_t i = 0; list && i < lines->count; i++)
        known = known || strcmp(list[i], text) == 0;
    if (known)
        free(text);
    else
        list[lines->count++] = text;
}

void gf_lines_free(struct gf_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->list[i]);
    free(lines->list);
    *lines = (struct gf_lines){0};
}
