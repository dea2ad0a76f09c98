/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's event log (GPUFEED_LOG), with one JSON object for each line (docs/log.md). The
 * preload library writes the log, also for events of the engine. The thread that reports an event
 * formats the line in a slot. One write with O_APPEND appends the line.
 *
 * In a process that uses a GPU, a writer thread makes these writes. All children share the slots,
 * so that the last lines of a killed worker are not lost. In other processes, the thread that
 * reports the event writes at once.
 *
 * No function here allocates, is a cancellation point or changes errno. None waits unless its
 * comment says so.
 */
#ifndef GF_PRELOAD_TRACE_JOURNAL_H
#define GF_PRELOAD_TRACE_JOURNAL_H

#include "abi/journal_api.h"
#include "preload/trace/line_slots.h"

/*
 * Called once. path_pattern may contain %p, %h and %r; if it is empty, there is no log. envp: the
 * process's environment at its start. All three arguments must stay valid for the life of the
 * process.
 */
void gf_journal_open(const char *path_pattern, char *const *envp, const char *own_version);
bool gf_journal_wanted(void);

/*
 * Log an event. `begin` writes the event's name, times, process and thread; the caller adds fields
 * to line->json; `end` hands the line over for writing. `begin` returns NULL without a log, and
 * beyond the limits of rate and size. Such lines are counted, and the next line reports the count.
 * Any thread, inside malloc, in a forked child.
 */
struct gf_line *gf_journal_begin(const char *event);
void gf_journal_end(struct gf_line *line);

/* Logs an event of the engine. fields: a JSON object on one line. */
void gf_journal_event(const char *event, const char *fields);

/*
 * Shares the slots with all children that are forked later. Called once, in a process that
 * initialised CUDA.
 */
void gf_journal_share(void);

/* Whether the slots are shared. Any thread. */
bool gf_journal_shared(void);

/* The writer thread's function, which never returns. All signals must be blocked. */
void gf_journal_serve(void);

/* Writes all finished lines on the calling thread. Any thread. */
void gf_journal_drain(void);

/*
 * Called near the end of the process, which also ends the writer thread. Waits at most 100 ms until
 * all finished lines are written. Afterwards each thread writes its own lines.
 */
void gf_journal_finish(void);

/*
 * Called before an _exit. If lines could be lost, calls `last`, which may log events (or is NULL),
 * and then gf_journal_finish. Any process and thread, also in a signal handler. No effect in a
 * child of vfork, which shares its parent's memory.
 */
void gf_journal_before_exit(void (*last)(void));

void gf_journal_count(struct gf_journal_count *ret);

#endif
