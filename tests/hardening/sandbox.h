/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp filters for tests: the listed system calls are allowed, or the listed ones kill the process. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the length of the filter program, which has at most 200 instructions. */
static inline unsigned short sandbox_program(struct sock_filter *code, const unsigned *numbers,
                                             unsigned count, unsigned listed, unsigned others)
{
    unsigned short at = 0;

    code[at++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count && i < 90; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    return at;
}

/* Applies to the calling thread, and to the threads and processes that it starts. */
static inline void sandbox_filter(const unsigned *numbers, unsigned count, unsigned listed,
                                  unsigned others)
{
    struct sock_filter code[200];
    const struct sock_fprog filter = {sandbox_program(code, numbers, count, listed, others), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        _exit(99);
}

/* Makes the listed calls kill the process, in every thread. */
static inline void sandbox_synced(const unsigned *numbers, unsigned count)
{
    struct sock_filter code[200];
    const struct sock_fprog filter = {
        sandbox_program(code, numbers, count, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter))
        _exit(99);
}

#define SANDBOX_ALLOW(...)                                                                         \
    do {                                                                                           \
        static const unsigned numbers_[] = {__VA_ARGS__};                                          \
        sandbox_filter(numbers_, sizeof(numbers_) / sizeof(*numbers_), SECCOMP_RET_ALLOW,          \
                       SECCOMP_RET_KILL_PROCESS);                                                  \
    } while (0)
