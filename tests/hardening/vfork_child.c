/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of vfork drops privileges and ends. Then the parent allocates large blocks, whose nodes
 * the library reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status;

    free(malloc(1));
    const pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(0);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < 20; i++) {
        char *block = calloc(1, 24 << 20);
        memset(block, 1, 24 << 20);
        free(block);
    }
    puts("done");
    return status;
}
