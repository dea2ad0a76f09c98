/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process with a context forks a child. The child installs a filter that permits two system
 * calls, and ends.
 */
#include "sandbox.h"

#include <cuda.h>
#include <stdio.h>
#include <sys/wait.h>

int main(void)
{
    CUcontext context;
    int status = 0;

    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
        return 90;
    for (int i = 0; i < 20; i++)
        free(malloc((size_t)1 << 20));
    for (int i = 0; i < 3; i++) {
        const pid_t child = fork();
        if (child == 0) {
            SANDBOX_ALLOW(SYS_write, SYS_exit_group);
            _exit(7);
        }
        waitpid(child, &status, 0);
        printf("%d %d\n", WIFEXITED(status), WEXITSTATUS(status));
    }
    return 0;
}
