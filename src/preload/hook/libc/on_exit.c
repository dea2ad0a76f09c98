/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _exit and _Exit: write the log lines that the writer thread has not written yet and that would be
 * lost. Without a writer thread, the call is passed through. The functions may be called in a
 * signal handler, in a forked child, and in a child of vfork, which must not write to its parent's
 * memory. Finding the originals takes a lock of the loader. A process with a second thread has
 * already found them in pthread_create.
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
