/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUFEED_LOG: the process's event log. Its lines are JSON objects (docs/log.md). The preload
 * library writes it; the engine passes its events on. The thread that reports an event formats the
 * line in a slot. One write with O_APPEND appends the line.
 *
 * In a process that feeds a GPU, a writer thread makes these writes. All children share its slots,
 * so that a worker's last lines are not lost when it is killed. In other processes the thread that
 * reports the event writes at once.
 *
 * Nothing here allocates, is a cancellation point or changes errno. Only the functions that say so
 * wait.
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
 * Logs an event. `begin` sets the event's name, times, process and thread; the caller adds fields
 * to line->json; `end` passes the line on. `begin` returns NULL if there is no log, and beyond the
 * limits of rate and size. A line beyond the limits is counted, and the next line reports the
 * count. Any thread, inside malloc, in a forked child.
 */
struct gf_line *gf_journal_begin(const char *event);
void gf_journal_end(struct gf_line *line);

/* Logs an event of the engine. fields: a JSON object on one line. */
void gf_journal_event(const char *event, const char *fields);

/*
 * Shares the slots with all children that are forked from now on. Called once, in a process with an
 * engine.
 */
void gf_journal_share(void);

/* Whether the slots are shared. Any thread. */
bool gf_journal_shared(void);

/*
 * Runs the writer thread, which writes lines until the process ends. All signals must be blocked.
 */
void gf_journal_serve(void);

/* Writes all finished lines on the calling thread. Any thread. */
void gf_journal_drain(void);

/*
 * Called near the end of the process, which also ends the writer thread. Finished lines are
 * written. From now on each thread writes its own lines. Waits for at most 100 ms.
 */
void gf_journal_finish(void);

/*
 * Called before an _exit. Does the same as gf_journal_finish if lines would be lost otherwise, after it called
 * `last`, which may log events (NULL: none). Any
 * process and thread, even in a signal handler. Does nothing in a child of vfork, which shares its
 * parent's memory.
 */
void gf_journal_before_exit(void (*last)(void));

void gf_journal_count(struct gf_journal_count *ret);

#endif
