/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates under a seccomp filter that permits only the system calls of glibc's malloc and of this
 * program. Any other call kills the process.
 */
#include "sandbox.h"

#include <stdio.h>
#include <string.h>

static size_t sum;

static void use(size_t most)
{
    char *kept[64] = {NULL};

    for (size_t size = 16; size <= most; size *= 4)
        for (int i = 0; i < (size < 65536 ? 64 : 10); i++) {
            const int at = i * 7 % 64;
            free(kept[at]);
            kept[at] = i % 3 ? malloc(size) : calloc(1, size);
            if (!kept[at])
                _exit(2);
            memset(kept[at], i, size < 65536 ? size : 65536);
            if (i % 5 == 0)
                kept[at] = realloc(kept[at], size * 3 / 2);
            sum += (unsigned char)kept[at][size / 2];
        }
    for (int i = 0; i < 64; i++)
        free(kept[i]);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    free(malloc(1)); /* the heap reads files when it starts */
    SANDBOX_ALLOW(SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_futex,
                  SYS_getrandom, SYS_write, SYS_exit_group);
    use((size_t)atoi(argv[1]) << 20);
    printf("%d\n", sum > 0);
    return 0;
}
