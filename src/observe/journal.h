/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUFEED_LOG: the process's one log of events, JSON lines as docs/log.md says. The door writes it;
 * the engine hands its events over. A line is made in a slot, by whoever has something to say, and
 * written by one O_APPEND write: by a thread of ours where there is one (the slots are then shared
 * with all children, so that what a worker said just before its end is not lost), else at once.
 * Nothing here allocates, waits, is a cancellation point or changes errno.
 */
#ifndef GF_OBSERVE_JOURNAL_H
#define GF_OBSERVE_JOURNAL_H

#include "observe/slots.h"

/* Once; both are kept. envp: of the process at birth. An empty pattern leaves it shut. */
void gf_journal_open(const char *pattern, char *const *envp, const char *version);
bool gf_journal_wanted(void);

/*
 * An event: begin fills in the times, who and what; the caller adds fields to line->json; end hands
 * it on. NULL when the journal is shut, or when this event is one too many: it is counted, and the
 * next line tells. Any thread, inside malloc, in a forked child.
 */
struct gf_line *gf_journal_begin(const char *event);
void gf_journal_end(struct gf_line *line);

/* An event of the engine's: fields is a JSON object. */
void gf_journal_event(const char *event, const char *fields);

/* Shares the slots with all children that are forked from now on. Once, in a process with an engine. */
void gf_journal_share(void);

/* For a thread of ours, all signals blocked: writes what comes until the process ends. */
void gf_journal_serve(void);

/* Writes what is ready. Any thread. */
void gf_journal_drain(void);

/*
 * Near the end of the process, and of the thread of ours with it: what is ready is written, and from now
 * on by whoever made it. Waits for a tenth of a second at the most.
 */
void gf_journal_finish(void);

/*
 * Right before an _exit: the same, if there is something that it would lose. For any process and thread,
 * in a signal handler, and in a child of vfork, whose memory is its parent's: there it does nothing.
 */
void gf_journal_leave(void);

/* Lines of this process and, where it shares the slots, of its children. */
struct gf_journal_count {
    uint64_t lines;    /* that were handed on */
    uint64_t left_out; /* that were not, or were lost: what the file cannot say after its last line */
};
void gf_journal_count(struct gf_journal_count *ret);

#endif
