/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal handler interrupts the process's first call of dlopen, in which the library makes libc's
 * symbol table writable, and searches malloc and opens a library itself. A filter raises the signal.
 */
#include "sandbox.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

static int found = -1;

/* The system call then fails: its result is a register of its own, which is not 0. */
static void search(int signal)
{
    (void)signal;
    found = dlsym(RTLD_NEXT, "malloc") && dlopen(NULL, RTLD_NOW);
}

int main(void)
{
    const unsigned raised = SYS_mprotect;

    free(malloc(1));
    signal(SIGSYS, search);
    alarm(5);
    sandbox_filter(&raised, 1, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
    const bool opened = dlopen("libc.so.6", RTLD_NOW);
    printf("%d %d\n", opened, found != 0); /* without the library, no signal was raised */
    return 0;
}
