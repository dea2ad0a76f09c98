/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/wrap.h"

#include "base/base.h"

#include <string.h>
#include <sys/ioctl.h>

void gf_wrap(FILE *out, const char *text, unsigned indent, unsigned width)
{
    gf_wrap_labelled(out, "", text, indent, width);
}

void gf_wrap_labelled(FILE *out, const char *label, const char *text, unsigned indent,
                      unsigned width)
{
    size_t column = 0;

    while (*(text += strspn(text, " \n"))) {
        const size_t length = strcspn(text, " \n");
        if (column && column + 1 + length > width) {
            fputc('\n', out);
            column = 0;
            label = "";
        }
        column += (size_t)fprintf(out, "%-*s%.*s", column ? 1 : (int)indent, column ? "" : label,
                                  (int)length, text);
        text += length;
    }
    fputc('\n', out);
}

unsigned gf_wrap_width(FILE *out)
{
    struct winsize size;

    if (ioctl(fileno(out), TIOCGWINSZ, &size) || size.ws_col < 40)
        return 80;
    return gf_min(size.ws_col, 100);
}
