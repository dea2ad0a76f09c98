/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's event log (GPUFEED_LOG), with one JSON object for each line (docs/log.md). The
 * preload library writes the log, also for events of the engine. The thread that reports an event
 * formats the line in a slot. A single write with O_APPEND then appends the line to the file.
 *
 * In a process that uses a GPU, a writer thread writes the lines to the file. All children share
 * the slots, so that the last lines of a killed worker are not lost. In other processes, the thread
 * that reports the event writes at once.
 *
 * No function here allocates, is a cancellation point or changes errno. A function waits only if
 * its comment says so.
 */
#pragma once

#include "abi/trace_api.h"
#include "preload/trace/line_slots.h"

/*
 * Called once. path_pattern may contain %p, %h and %r; if it is empty, there is no log. envp: the
 * process's environment at its start, which setproctitle overwrites later. path_pattern and own_version must stay valid
 * for the life of the process.
 */
void gf_journal_open(const char *path_pattern, char *const *envp, const char *own_version);
bool gf_journal_wanted(void);

/*
 * Log an event. gf_journal_begin writes the event's name, times, process and thread. The caller
 * then adds fields to line->json, and calls gf_journal_end, which hands the line over for writing.
 * gf_journal_begin returns NULL if there is no log, if the limit of rate or size is exceeded, and
 * if no slot is free. If there is a log, such a line counts as dropped, and the next line reports
 * the number of dropped lines. Both functions may be called on any thread, also inside malloc and
 * in a forked child.
 */
struct gf_line *gf_journal_begin(const char *event);
void gf_journal_end(struct gf_line *line);

/* Logs an event of the engine. fields: a JSON object on one line. */
void gf_journal_event(const char *event, const char *fields);

/* Logs that the process ends normally, once, if it has logged any event. */
void gf_journal_put_exit(void);

/*
 * Shares the slots with all children that are forked later. Called once, in a process that
 * initialised CUDA.
 */
void gf_journal_share(void);

/* Whether the slots are shared. May be called on any thread. */
bool gf_journal_shared(void);

/*
 * The writer thread's function. All signals must be blocked. Returns only if the slots are not
 * shared, or if the kernel refuses to let the thread wait. Each thread then writes its own lines.
 */
void gf_journal_serve(void);

/* Writes all finished lines, on the calling thread, which may be any thread. */
void gf_journal_drain(void);

/*
 * Called near the end of the process, when the writer thread will soon end with the process. Waits
 * until all finished lines are written, but at most 100 ms. Afterwards a thread that logs an event
 * also writes its line to the file.
 */
void gf_journal_finish(void);

/*
 * Called before an _exit, in any process and on any thread, also in a signal handler. If lines
 * could be lost, calls `last`, unless that is NULL, logs the exit, and calls gf_journal_finish. `last`
 * may log events. Has no effect in a child of vfork, which shares its parent's memory.
 */
void gf_journal_before_exit(void (*last)(void));

void gf_journal_count(struct gf_journal_count *ret);
