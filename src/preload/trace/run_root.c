/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/run_root.h"

#include "base/atomic.h"
#include "base/log.h"
#include "config/startup_env.h"
#include "os/launch.h"
#include "os/permit.h"
#include "preload/trace/journal.h"

#include <stdlib.h>
#include <sys/resource.h>

void gf_messages_start(void)
{
    const struct gf_startup_env *startup = gf_startup_env();
    struct gf_rank rank;
    char name[32];

    gf_launch_rank(environ, &rank);
    gf_launch_name(&rank, name, sizeof(name));
    if (*name)
        gf_log_set_process(name);
    gf_log_expect_stderr(startup->stderr_device, startup->stderr_inode);
    gf_log_set_level(startup->stderr_closed ? GF_LOG_SILENT
                                            : GF_LOG_WARN + gf_startup_env_options()->verbose);
}

#define NEVER "this process never used a GPU: "
#define GPU_CHILD_KIB (64L << 10)

/* Shared with forked children; changed by the __atomic_* builtins. */
struct root {
    pid_t pid;
    bool others;      /* a child initialised CUDA, or a program was started */
    bool initialised; /* cuInit succeeded in this process */
    int error;        /* the last failure of cuInit in this process; 0: none */
};

static struct root *root; /* NULL: another process; constant after the heap's start */
static bool (*_Atomic has_context)(void);

static void report_unused(void)
{
    bool (*const used)(void) = gf_load_acquire(&has_context);

    if (root->initialised && (!used || used()))
        return;
    gf_messages_start();
    gf_journal_finish(); /* names a log that could not be written */
    if (root->initialised)
        gf_info(NEVER "it initialised CUDA, but created no context. Check that it moves its model "
                      "and its data to the GPU.");
    else if (root->error)
        gf_info(NEVER "cuInit failed with error %d. `gpufeed doctor` checks the driver and the "
                      "container.",
                root->error);
    else
        gf_info(NEVER "it did not call CUDA's driver. Check that its framework is built for CUDA, "
                      "and that it chooses the GPU.");
}

/*
 * Whether a child that has ended was large enough to have used a GPU; a process with a context has
 * more than 100 MiB in memory. The kernel keeps this figure when the process executes another
 * program, as shells do for their last command, while `others` is lost.
 */
static bool had_large_child(void)
{
    struct rusage children;
    return getrusage(RUSAGE_CHILDREN, &children) || children.ru_maxrss >= GPU_CHILD_KIB;
}

/*
 * Runs after the program's own handlers. A program that failed may have failed before it would have
 * used a GPU.
 */
static void at_exit(int status, void *unused)
{
    (void)unused;
    if (status == 0 && !gf_permit_sealed() && root && root->pid == getpid() &&
        !__atomic_load_n(&root->others, __ATOMIC_RELAXED) && !had_large_child())
        report_unused();
}

void gf_run_root_open(void)
{
    struct root *shared = gf_scratch_share(sizeof(*root));

    if (!shared)
        return;
    shared->pid = getpid();
    if (on_exit(at_exit, NULL) == 0)
        root = shared;
}

void gf_run_root_started_program(void)
{
    if (root)
        __atomic_store_n(&root->others, true, __ATOMIC_RELAXED);
}

void gf_run_root_initialised(int result)
{
    if (!root)
        return;
    if (root->pid != getpid()) {
        if (result == 0)
            __atomic_store_n(&root->others, true, __ATOMIC_RELAXED);
    } else if (result == 0) {
        __atomic_store_n(&root->initialised, true, __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(&root->error, result, __ATOMIC_RELAXED);
    }
}

void gf_run_root_ask(bool (*new_has_context)(void))
{
    gf_store_release(&has_context, new_has_context);
}
