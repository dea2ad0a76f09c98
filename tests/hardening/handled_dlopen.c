/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal handler interrupts the process's first call of dlopen, in which the library makes libc's
 * symbol table writable, and searches malloc and opens a library itself. A filter raises the signal.
 * Without an argument, the system call then fails. Otherwise the handler makes it, as a sandbox does, and
 * the program opens the library that the argument names, which finds its own function first.
 */
#include "sandbox.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

static int found = -1;
static bool makes;

int which(void);
int which(void)
{
    return 1;
}

static void search(int signal, siginfo_t *info, void *context)
{
    ucontext_t *const at = context;
#if defined(__x86_64__)
    greg_t *const word = at->uc_mcontext.gregs;
    enum { result = REG_RAX, start = REG_RDI, size = REG_RSI };
#else
    unsigned long long *const word = at->uc_mcontext.regs;
    enum { result = 0, start = 0, size = 1 };
#endif

    (void)signal, (void)info;
    found = dlsym(RTLD_NEXT, "malloc") && dlopen(NULL, RTLD_NOW);
    if (makes)
        word[result] = mprotect((void *)(uintptr_t)word[start], (size_t)word[size],
                                PROT_READ | PROT_WRITE | PROT_EXEC);
}

/* Raises the signal for mprotect, but not with PROT_EXEC. */
static void raise_at_mprotect(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof(code) / sizeof(*code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        _exit(99);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = search, .sa_flags = SA_SIGINFO};
    int (*ask)(void) = NULL;

    makes = argc > 1;
    free(malloc(1));
    sigaction(SIGSYS, &action, NULL);
    alarm(5);
    raise_at_mprotect();
    const bool opened = dlopen("libc.so.6", RTLD_NOW);
    if (makes)
        *(void **)&ask = dlsym(dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND), "ask");
    /* Without the library, no signal was raised before the second dlopen. */
    printf("%d %d %d\n", opened, found != 0, ask ? ask() : 2);
    return 0;
}
