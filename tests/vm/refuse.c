// SPDX-License-Identifier: Apache-2.0
/*
 * refuse ERRNO CMD ARG...: runs CMD under a seccomp filter that refuses the memory policy calls, as
 * Docker's and containerd's default profile does without CAP_SYS_NICE. The errno is EPERM with
 * runc, and ENOSYS with some builds of crun. All other calls are allowed.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node 450
#endif

#define DENIED(number, jumps) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), (jumps), 0)

int main(int argc, char **argv)
{
    unsigned error = argc > 2 && !strcmp(argv[1], "ENOSYS") ? ENOSYS : EPERM;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        DENIED(SYS_get_mempolicy, 6),
        DENIED(SYS_set_mempolicy, 5),
        DENIED(SYS_mbind, 4),
        DENIED(SYS_set_mempolicy_home_node, 3),
        DENIED(SYS_move_pages, 2),
        DENIED(SYS_migrate_pages, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (argc < 3) {
        fprintf(stderr, "usage: refuse EPERM|ENOSYS CMD ARG...\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("seccomp");
        return 2;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
