/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _exit and _Exit: what a thread of ours has not written yet would be lost with the process. Passed
 * straight on where there is none. Both may be called in a signal handler, in a forked child and in
 * a child of vfork, which shall leave its parent's memory alone. Finding the originals takes a lock
 * of the loader's: they are known since pthread_create where another thread could hold it.
 */
#include "hook/originals.h"
#include "observe/journal.h"

#include <stdlib.h>
#include <unistd.h>

GF_EXPORT void _exit(int status)
{
    gf_journal_leave();
    gf_originals()->_exit(status);
    __builtin_unreachable();
}

GF_EXPORT void _Exit(int status)
{
    gf_journal_leave();
    gf_originals()->_Exit(status);
    __builtin_unreachable();
}
