/* SPDX-License-Identifier: Apache-2.0 */
/* Runs during the build, and prints the table of checks for docs/doctor.md. */
#include <stdio.h>

int main(void)
{
    puts("| check | reads | why it matters | page |\n|---|---|---|---|");
#define GF_CHECK(token, name, reads, why, page, ...)                                               \
    puts("| `" name "` | " reads " | " why " | [" page "](" page ") |");
#include "tools/doctor/checks.def"
    return fflush(stdout) || ferror(stdout);
}
