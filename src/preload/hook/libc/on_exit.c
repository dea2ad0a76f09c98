/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of _exit and _Exit, which first write log lines that would be lost, because the writer
 * thread has not written them yet. The hooks may be called in a signal handler, in a forked child,
 * and in a child of vfork, which must not write to its parent's memory. The first call of
 * gf_originals takes a lock of the loader. But if the process has a second thread, the hook of
 * pthread_create has already called it.
 */
#include "preload/hook/originals/originals.h"
#include "preload/trace/journal.h"
#include "preload/trace/step_log.h"

#include <stdlib.h>
#include <unistd.h>

void gf_on__exit(int status)
{
    gf_journal_before_exit(gf_step_log_flush);
    gf_originals()->_exit(status);
    __builtin_unreachable();
}

void gf_on__Exit(int status)
{
    gf_journal_before_exit(gf_step_log_flush);
    gf_originals()->_Exit(status);
    __builtin_unreachable();
}
