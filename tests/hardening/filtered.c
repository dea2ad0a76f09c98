/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filtered NUMBER[,NUMBER...] PROGRAM [ARGUMENT...]: each of these system calls kills the program or
 * the child that makes it.
 */
#include "sandbox.h"

#include <string.h>

int main(int argc, char **argv)
{
    unsigned numbers[64], count = 0;

    if (argc < 3)
        return 98;
    for (char *word = strtok(argv[1], ","); word && count < 64; word = strtok(NULL, ","))
        numbers[count++] = (unsigned)atoi(word);
    sandbox_filter(numbers, count, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    execvp(argv[2], argv + 2);
    return 97;
}
