/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the build: writes the table of checks in docs/doctor.md. */
#include <stdio.h>

int main(void)
{
    puts("| check | reads | why it matters | page |\n|---|---|---|---|");
#define GF_CHECK(token, name, reads, why, page, ...)                                               \
    puts("| `" name "` | " reads " | " why " | [" page "](" page ") |");
#include "cli/doctor/checks.def"
    return fflush(stdout) || ferror(stdout);
}
