/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/shell_word.h"

#include "base/base.h"

#include <string.h>

static bool has_control(const char *word)
{
    for (; *word; word++)
        if ((unsigned char)*word < ' ' || *word == 0x7f)
            return true;
    return false;
}

static void print_escaped(FILE *out, const char *word)
{
    fputs("$'", out);
    for (; *word; word++) {
        if ((unsigned char)*word < ' ' || *word == 0x7f)
            fprintf(out, "\\%03o", (unsigned)*word);
        else
            fprintf(out, "%s%c", strchr("'\\", *word) ? "\\" : "", *word);
    }
    fputc('\'', out);
}

void gf_shell_word(FILE *out, const char *word)
{
    const size_t plain =
        strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-");

    if (plain && !word[plain]) {
        fputs(word, out);
        return;
    }
    if (has_control(word)) {
        print_escaped(out, word);
        return;
    }
    fputc('\'', out);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    }
    fputc('\'', out);
}
