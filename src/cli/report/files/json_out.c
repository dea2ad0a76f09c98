/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/json_out.h"

void gf_json_out_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}
