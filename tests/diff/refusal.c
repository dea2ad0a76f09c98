/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that the kernel refuses, in all threads of the process. */
#include "kit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The call fails if the lower half of the argument, after the mask, equals the value. If `turned`
 * is set, it fails if they differ.
 */
static const struct refusal {
    const char *name;
    unsigned call, argument, mask, value;
    bool turned;
    int error;
} refusals[] = {
    {"populate-read", SYS_madvise, 2, ~0u, MADV_POPULATE_READ, false, EINVAL},
    {"populate-read-fault", SYS_madvise, 2, ~0u, MADV_POPULATE_READ, false, EFAULT},
    {"populate-write", SYS_madvise, 2, ~0u, MADV_POPULATE_WRITE, false, EINVAL},
    {"populate-write-memory", SYS_madvise, 2, ~0u, MADV_POPULATE_WRITE, false, ENOMEM},
    {"dontfork", SYS_madvise, 2, ~0u, MADV_DONTFORK, false, EINVAL},
    {"hugepage", SYS_madvise, 2, ~0u, MADV_HUGEPAGE, false, EINVAL},
    {"madvise", SYS_madvise, 0, 0, 0, false, ENOSYS},
    {"shared-map", SYS_mmap, 3, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, false,
     ENOMEM},
    {"reserve-map", SYS_mmap, 2, ~0u, PROT_NONE, false, ENOMEM},
    {"large-map", SYS_mmap, 1, 0x7fc00000, 0, true, ENOMEM}, /* mappings of 4 MiB and more */
    {"large-unmap", SYS_munmap, 1, 0x7fc00000, 0, true, ENOMEM},
    {"mbind", SYS_mbind, 0, 0, 0, false, EPERM},
    {"move-pages", SYS_move_pages, 0, 0, 0, false, EPERM},
    {"affinity", SYS_sched_setaffinity, 0, 0, 0, false, EPERM},
    {"policy", SYS_set_mempolicy, 0, 0, 0, false, ENOSYS},
    {"name", SYS_prctl, 0, ~0u, PR_SET_NAME, false, EPERM},
    {"threads", SYS_clone3, 0, 0, 0, false, EAGAIN},
    {"scheduling", SYS_sched_setscheduler, 0, 0, 0, false, EPERM}, /* for a new thread */
    {"priority", SYS_setpriority, 0, 0, 0, false, EACCES},
    {"question", SYS_ioctl, 1, 0xffff, 'f' << 8 | 17, false, ENOTTY}, /* PROCMAP_QUERY */
    {"read", SYS_read, 2, ~0u, 8191, false, EIO},                     /* of maps */
    {"read-own", SYS_process_vm_readv, 0, 0, 0, false, EPERM},
    {"write-own", SYS_process_vm_writev, 0, 0, 0, false, EPERM},
    {"mincore", SYS_mincore, 0, 0, 0, false, ENOMEM},
    {"mremap", SYS_mremap, 0, 0, 0, false, ENOMEM},
    {"munlock", SYS_munlock, 0, 0, 0, false, EPERM},
    {"statfs", SYS_statfs, 0, 0, 0, false, ENOSYS},
    {"limits", SYS_prlimit64, 0, 0, 0, false, EPERM},
    {"duplicate", SYS_fcntl, 2, ~0u, 960, false, EMFILE}, /* of maps, to a high number */
    {"dontneed", SYS_madvise, 2, ~0u, MADV_DONTNEED, false, EINVAL},
    {"protect", SYS_mprotect, 2, ~0u, PROT_READ | PROT_WRITE, false, EACCES},
    {"willneed", SYS_madvise, 2, ~0u, MADV_WILLNEED, false, EINVAL},
    {"io-priority", SYS_ioprio_get, 0, 0, 0, false, EPERM},
    {"set-io-priority", SYS_ioprio_set, 0, 0, 0, false, EPERM},
};

void kit_install_filter(struct sock_filter *code, unsigned short length)
{
    struct sock_fprog filter = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter))
        exit(77);
}

void kit_refuse(const char *name)
{
    const struct refusal *r = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strcmp(refusals[i].name, name) == 0)
            r = &refusals[i];
    if (!r)
        exit(2);
    const unsigned at = 16 + 8 * r->argument; /* seccomp_data.args; the lower half comes first */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, r->turned, !r->turned),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)r->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    kit_install_filter(code, sizeof code / sizeof code[0]);
}
