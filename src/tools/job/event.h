/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/scan.h"

/*
 * The latest time that an event can have, in seconds since 1970. An event with a later time counts
 * as an event without a time.
 */
#define GF_TIME_MAX 1e11

/*
 * Expands X(field) for each field that the command reads, of an event or of an object in an event's
 * list. Other fields are skipped.
 */
#define GF_EVENT_FIELDS(X)                                                                         \
    X(event)                                                                                       \
    X(time)                                                                                        \
    X(mono)                                                                                        \
    X(pid)                                                                                         \
    X(tid)                                                                                         \
    X(dropped)                                                                                     \
    X(call)                                                                                        \
    X(size)                                                                                        \
    X(us)                                                                                          \
    X(start)                                                                                       \
    X(thread)                                                                                      \
    X(step)                                                                                        \
    X(python)                                                                                      \
    X(stack)                                                                                       \
    X(modules)                                                                                     \
    X(cause)                                                                                       \
    X(text)                                                                                        \
    X(program)                                                                                     \
    X(ppid)                                                                                        \
    X(rank)                                                                                        \
    X(host)                                                                                        \
    X(threads)                                                                                     \
    X(started)                                                                                     \
    X(delay_ms)                                                                                    \
    X(throttled_ms)                                                                                \
    X(fault_ms)                                                                                    \
    X(steps)                                                                                       \
    X(after_us)                                                                                    \
    X(skipped)                                                                                     \
    X(last)                                                                                        \
    X(evidence)                                                                                    \
    X(node)                                                                                        \
    X(block_node)                                                                                  \
    X(gpu)                                                                                         \
    X(interval_ms)                                                                                 \
    X(gpus)                                                                                        \
    X(copies)                                                                                      \
    X(direction)                                                                                   \
    X(way)                                                                                         \
    X(bytes)                                                                                       \
    X(longest)

/* The fields of an event, as spans of its line. A field that is absent has a span of size 0. */
struct gf_event {
#define GF_EVENT_MEMBER(field) struct gf_span field;
    GF_EVENT_FIELDS(GF_EVENT_MEMBER)
#undef GF_EVENT_MEMBER
};

/* Reads the fields of a line. Returns false if the line is not a JSON object, or is damaged. */
bool gf_event_read(struct gf_span text, struct gf_event *ret);

/* Returns when an event occurred, in seconds since 1970; 0 if its time is missing or impossible. */
double gf_event_time(const struct gf_event *event);

/* True if the line is an event of this kind. */
bool gf_event_is(const struct gf_event *event, const char *kind);

/*
 * Reads a file line by line, in large blocks. Lines may contain zero bytes. The time is linear in
 * the space that the file takes: of a hole one byte is read, and of a file that grows meanwhile what
 * it had at the start.
 */

struct gf_line_reader {
    int fd;
    int error; /* errno of a failed read; 0 otherwise */
    char *buf;
    size_t size, from, to;
    uint64_t number; /* number of the line that was read last; the first line is 1 */
    uint64_t bytes;  /* number of bytes that were read from the file */
    off_t file_end;  /* where the file ended at the start; -1: it is not a regular file */
    bool ended;
    size_t block; /* the most bytes of a read, and 1 */
};

/* Begins to read from fd. The caller closes fd. */
void gf_line_reader_begin(struct gf_line_reader *reader, int fd);

/*
 * Returns the next line without its newline, valid until the next call. Lines are cut after 4 MiB.
 * Returns false at the end of the file, and after an error.
 */
bool gf_line_reader_next(struct gf_line_reader *reader, struct gf_span *ret);

/*
 * Returns `line`, which must be the last line that was read, together with the rest of the file.
 * The text is valid until gf_line_reader_end. Returns false if the text is longer than `limit`
 * bytes, or after an error.
 */
bool gf_line_reader_rest(struct gf_line_reader *reader, struct gf_span line, size_t limit,
                         struct gf_span *ret);

void gf_line_reader_end(struct gf_line_reader *reader);
