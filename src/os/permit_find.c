/* SPDX-License-Identifier: Apache-2.0 */
#include "os/permit.h"

#include "base/cpus.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <linux/kcmp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PAGE 4096UL /* if the system's pages are larger, their size is a multiple of this */

/* The progress of the trials. The parent and its children share this memory. */
struct trial {
    unsigned passed; /* bits of the calls that have returned, with any result */
    unsigned begun;  /* number of calls that the children have begun so far */
    bool shielded;   /* true if the child cannot dump core */
};

static void make_call(enum gf_permit call, struct trial *trial)
{
    struct gf_cpus cpus = {0};
    void *page = (void *)((uintptr_t)trial & ~(PAGE - 1));
    unsigned char present;
    int status;
    char byte;
    const struct iovec local = {&byte, 1}, remote = {trial, 1};

    switch (call) {
    case gf_permit_mincore:
        syscall(SYS_mincore, page, 1UL, &present);
        break;
    case gf_permit_msync:
        syscall(SYS_msync, page, 1UL, MS_INVALIDATE);
        break;
    case gf_permit_move_pages:
        syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0);
        break;
    case gf_permit_read_memory:
        syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1UL, &remote, 1UL, 0UL);
        break;
    case gf_permit_write_memory:
        syscall(SYS_process_vm_writev, syscall(SYS_getpid), &remote, 1UL, &local, 1UL, 0UL);
        break;
    case gf_permit_get_mempolicy:
        syscall(SYS_get_mempolicy, &status, NULL, 0UL, NULL, 0UL);
        break;
    case gf_permit_take_file:
        syscall(SYS_pidfd_open, syscall(SYS_getpid), 0);
        syscall(SYS_pidfd_getfd, -1, -1, 0);
        syscall(SYS_kcmp, syscall(SYS_getpid), syscall(SYS_getpid), KCMP_FILES, 0UL, 0UL);
        break;
    case gf_permit_close_range:
        syscall(SYS_close_range, ~0U, ~0U, 0U);
        break;
    case gf_permit_set_affinity:
        syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus.word);
        syscall(SYS_sched_setaffinity, 0, sizeof(cpus), cpus.word);
        break;
    case gf_permit_set_mempolicy:
        syscall(SYS_set_mempolicy, 0, NULL, 0UL);
        break;
    case gf_permit_mbind:
        syscall(SYS_mbind, page, PAGE, 0, NULL, 0UL, 0);
        break;
    case gf_permit_reset_range:
        syscall(SYS_pkey_mprotect, NULL, 0UL, PROT_READ, 0);
        syscall(SYS_munlock, NULL, 0UL);
        break;
    case gf_permit_io_priority:
        syscall(SYS_ioprio_set, 1, 0, syscall(SYS_ioprio_get, 1, 0));
        break;
    case gf_permit_priority:
        /* The kernel's getpriority returns 20 - nice. */
        syscall(SYS_setpriority, PRIO_PROCESS, 0, 20 - syscall(SYS_getpriority, PRIO_PROCESS, 0));
        syscall(SYS_sched_getscheduler, 0);
        syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, NULL); /* fails */
        break;
    case gf_permit_huge_pages:
        syscall(SYS_prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0); /* ends with the child */
        break;
    case GF_PERMITS:
        break;
    }
}

/*
 * Tries the calls in a child, which makes only system calls. A child that could dump core tries no
 * call, because writing the core of a large process takes long.
 */
static _Noreturn void run_child(struct trial *trial, unsigned wanted)
{
    trial->shielded = syscall(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
    while (trial->shielded && trial->begun < GF_PERMITS) {
        const unsigned call = trial->begun++;
        if (!(wanted >> call & 1))
            continue;
        make_call(call, trial);
        trial->passed |= 1U << call;
    }
    for (;;)
        syscall(SYS_exit_group, 0);
}

/*
 * Runs a child that tries the remaining calls until a call kills it or all are tried. The child
 * gets a copy of the memory, because before Linux 5.16 a signal that dumps core kills every process
 * that shares the memory. The program gets no signal when the child ends. The program's own calls
 * of wait ignore the child, unless they use __WALL or __WCLONE. Returns false if the child tried no
 * call.
 */
static bool run_trial(struct trial *trial, unsigned wanted)
{
    const unsigned before = trial->begun;
    long child;

    trial->shielded = false;
    child = syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL);
    if (child == 0)
        run_child(trial, wanted);
    while (child > 0 && syscall(SYS_wait4, child, NULL, __WALL, NULL) < 0 && errno == EINTR)
        ;
    return child > 0 && trial->shielded && trial->begun > before;
}

static unsigned try_calls(unsigned wanted)
{
    struct trial *trial = gf_scratch_share(PAGE);
    uint64_t all = ~UINT64_C(0), before;

    if (!trial)
        return 0;
    /*
     * All signals are blocked, so the child runs no signal handler of the program, not even for
     * SIGSYS.
     */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
    while (trial->begun < GF_PERMITS && run_trial(trial, wanted))
        ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    const unsigned passed = trial->passed;
    gf_scratch_give(trial, PAGE);
    return passed;
}

/* Sets *closure to whether the thread has a seccomp filter. Leaves it true if this is unknown. */
static void find_filter(void *closure)
{
    char text[512];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    bool ret = false, *const filtered = closure; /* a kernel without seccomp has no such line */

    if (!gf_procfs_lines_open(&lines, "/proc/thread-self/status"))
        return;
    for (const char *line; (line = gf_procfs_lines_next(&lines));) {
        const char *mode = lines.continued ? NULL : gf_procfs_field(line, "Seccomp");
        if (mode)
            ret = *mode != '0';
    }
    gf_procfs_lines_close(&lines);
    *filtered = ret || lines.error;
}

void gf_permit_find(unsigned wanted)
{
    gf_keep_errno();
    bool filtered = true;

    gf_own_table_run(find_filter, &filtered); /* a new thread has its creator's filters */
    gf_permit_only(filtered ? try_calls(wanted) : wanted);
}
