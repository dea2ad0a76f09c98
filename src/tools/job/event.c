/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_input.h"

#include "tools/common/cli.h"

#include <stdlib.h>
#include <sys/stat.h>

/* The names of the members of struct gf_event, in their order. */
#define GF_EVENT_NAME(field) #field
#define GF_EVENT_LENGTH(field) sizeof(#field) - 1
static const char *const names[] = {GF_EVENT_FIELDS(GF_EVENT_NAME)};
static const size_t lengths[] = {GF_EVENT_FIELDS(GF_EVENT_LENGTH)};

static struct gf_span *member(struct gf_event *event, struct gf_span key)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        if (lengths[i] == key.size && *names[i] == *key.at &&
            memcmp(names[i], key.at, key.size) == 0)
            return (struct gf_span *)event + i;
    return NULL;
}

bool gf_event_read(struct gf_span text, struct gf_event *ret)
{
    struct gf_scan scan = gf_scan_begin(text, '{');
    struct gf_span key, value;

    *ret = (struct gf_event){0};
    while (gf_scan_member(&scan, &key, &value)) {
        struct gf_span *at = member(ret, key);
        if (at)
            *at = value;
    }
    return gf_scan_ended(&scan);
}

double gf_event_time(const struct gf_event *event)
{
    const double time = gf_span_number(event->time);
    return time >= 0 && time < GF_TIME_MAX ? time : 0;
}

bool gf_event_is(const struct gf_event *event, const char *kind)
{
    const struct gf_span value = event->event;

    return value.size == strlen(kind) + 2 && *value.at == '"' &&
           memcmp(value.at + 1, kind, value.size - 2) == 0;
}

#define BLOCK_MOST ((size_t)64 << 10)
#define BLOCK_LEAST ((size_t)4 << 10) /* of a short file: the files of a folder are open together */
#define LINE_MAX_BYTES ((size_t)4 << 20)

void gf_line_reader_begin(struct gf_line_reader *reader, int fd)
{
    struct stat found;

    *reader = (struct gf_line_reader){.fd = fd, .file_end = -1, .block = BLOCK_MOST};
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
        reader->file_end = found.st_size;
        if (found.st_size < (off_t)BLOCK_LEAST)
            reader->block = BLOCK_LEAST;
    }
}

/* Makes room for a block after the unread bytes. */
static void make_room(struct gf_line_reader *reader)
{
    if (reader->from) {
        memmove(reader->buf, reader->buf + reader->from, reader->to - reader->from);
        reader->to -= reader->from;
        reader->from = 0;
    }
    if (reader->size - reader->to >= reader->block)
        return;
    reader->size = reader->size ? reader->size * 2 : 2 * reader->block;
    reader->buf = gf_cli_memory(realloc(reader->buf, reader->size));
}

/*
 * Moves to the next bytes of a regular file that are in no hole, and stores a zero byte for a hole.
 * Returns how many bytes are read next. None of a file without a size: it is empty, or the kernel
 * makes up its bytes, and reading may consume them, as those of trace_pipe. None if the file
 * system moves back, because such a file has no end.
 */
static size_t skip_hole(struct gf_line_reader *reader)
{
    if (!reader->file_end)
        return 0;
    const off_t at = reader->file_end >= 0 ? lseek(reader->fd, 0, SEEK_CUR) : -1;
    const off_t data = at < 0 ? -1 : lseek(reader->fd, at, SEEK_DATA);

    if (at < 0 || (data < 0 && errno != ENXIO)) /* ENXIO: a hole up to the end */
        return reader->block - 1;
    if (data >= 0 && data < at)
        return 0;
    if (data != at && at < reader->file_end)
        reader->buf[reader->to++] = '\0';
    return data < 0 || data >= reader->file_end
               ? 0
               : (size_t)gf_min(reader->file_end - data, (off_t)reader->block - 1);
}

/* Reads a block. Returns false at the end of the file, and after an error. */
static bool fill(struct gf_line_reader *reader)
{
    static uint64_t total;
    ssize_t got;

    if (reader->ended || reader->error)
        return false;
    make_room(reader);
    const size_t before = reader->to, size = skip_hole(reader);
    do
        got = size ? read(reader->fd, reader->buf + reader->to, size) : 0;
    while (got < 0 && errno == EINTR);
    /* A server of a FUSE file system may answer each read with one byte. */
    total += got <= 0 ? 0 : reader->file_end < 0 ? (size_t)got : reader->block;
    if (got < 0 || total > GF_BYTES_MOST)
        reader->error = got < 0 ? errno : EFBIG;
    reader->ended = got <= 0;
    reader->to += (size_t)gf_max(got, (ssize_t)0);
    reader->bytes += reader->to - before;
    return reader->to > before;
}

/* Skips the rest of a line that is too long. */
static void skip_line(struct gf_line_reader *reader, size_t kept)
{
    for (;;) {
        const char *newline = memchr(reader->buf + kept, '\n', reader->to - kept);
        if (newline) {
            reader->from = (size_t)(newline + 1 - reader->buf);
            return;
        }
        reader->to = kept;
        if (!fill(reader)) {
            reader->from = reader->to;
            return;
        }
    }
}

bool gf_line_reader_next(struct gf_line_reader *reader, struct gf_span *ret)
{
    size_t searched = 0;

    for (;;) {
        const size_t length = reader->to - reader->from;
        const char *line = length ? reader->buf + reader->from : NULL;
        const char *newline =
            length > searched ? memchr(line + searched, '\n', length - searched) : NULL;
        if (newline) {
            *ret = (struct gf_span){line, (size_t)(newline - line)};
            reader->from += ret->size + 1;
            break;
        }
        if (length > LINE_MAX_BYTES) {
            if (reader->from)
                make_room(reader);
            skip_line(reader, LINE_MAX_BYTES);
            *ret = (struct gf_span){reader->buf, LINE_MAX_BYTES};
            break;
        }
        searched = length;
        if (fill(reader))
            continue;
        if (reader->error || !length)
            return false;
        *ret = (struct gf_span){reader->buf + reader->from, length};
        reader->from = reader->to;
        break;
    }
    reader->number++;
    return true;
}

bool gf_line_reader_rest(struct gf_line_reader *reader, struct gf_span line, size_t limit,
                         struct gf_span *ret)
{
    reader->from = (size_t)(line.at - reader->buf);
    while (fill(reader))
        if (reader->to - reader->from > limit)
            return false;
    *ret = (struct gf_span){reader->buf + reader->from, reader->to - reader->from};
    reader->from = reader->to;
    return !reader->error && ret->size <= limit;
}

void gf_line_reader_end(struct gf_line_reader *reader)
{
    free(reader->buf);
    reader->buf = NULL;
}
