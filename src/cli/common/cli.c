/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/cli.h"

#include "base/fmt.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void gf_cli_error(const char *verb, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    gf_plain_text(text);
    fprintf(stderr, "gpufeed%s%s: %s\n", *verb ? " " : "", verb, text);
}

const char *gf_cli_machine_reason(const char *root, int error, char *buf, size_t size)
{
    const bool is_other = error == -ENOENT && *root && access(root, F_OK) == 0;

    snprintf(buf, size, "cannot read %s: %s", *root ? root : "this machine",
             is_other ? "`gpufeed topo --record` has not written this folder" : strerror(-error));
    return buf;
}

int gf_cli_machine_error(const char *verb, const char *root, int error)
{
    char reason[2048];

    gf_cli_error(verb, "%s", gf_cli_machine_reason(root, error, reason, sizeof(reason)));
    return GF_EXIT_FAILED;
}
