/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/report/event_list.h"

#include "tools/common/cli.h"
#include "tools/job/event.h"
#include "tools/job/job_events.h"
#include "tools/job/read_job.h"
#include "tools/report/event_text.h"

#include <stdlib.h>
#include <sys/resource.h>

/* Merges several logs by time. Lines of one log stay in their order. */

/* A line of a log. is_event is false for a damaged line. */
struct gf_merged_line {
    const struct gf_source *source;
    uint64_t number;
    struct gf_span text; /* valid until the next line is read */
    struct gf_event event;
    bool is_event;
    struct gf_job_log *log; /* the processes of the line's log */
};

struct gf_merge_input {
    struct gf_line_reader lines;
    struct gf_job_log log;
    struct gf_merged_line line;
    double time; /* time of the last line that has a time */
    bool open;
};

struct gf_log_merge {
    struct gf_merge_input *inputs;
    size_t count;
    struct gf_merge_input **heap; /* the open inputs; no input is before its parent, (i - 1) / 2 */
    size_t heap_count;
    struct gf_merge_input *last; /* the input whose line was returned last, which is the first */
};

/*
 * Reads the next line that is not empty. A log may contain empty lines: after a write that was cut
 * short, the library begins the next write with a newline.
 */
static void read_log_line(struct gf_merge_input *input)
{
    struct gf_merged_line *line = &input->line;

    do
        input->open = gf_line_reader_next(&input->lines, &line->text);
    while (input->open && line->text.size == 0);
    if (!input->open)
        return;
    line->number = input->lines.number;
    line->is_event = gf_event_read(line->text, &line->event) && line->event.event.size;
    if (line->is_event && gf_event_time(&line->event) > 0)
        input->time = gf_event_time(&line->event);
}

static bool is_before(const struct gf_merge_input *a, const struct gf_merge_input *b)
{
    return a->time < b->time || (a->time <= b->time && a < b);
}

/* Moves the input down to its place in the heap. */
static void sift_down(struct gf_log_merge *merge, size_t at)
{
    struct gf_merge_input **heap = merge->heap, *moved = heap[at];

    for (size_t child; (child = 2 * at + 1) < merge->heap_count; at = child) {
        if (child + 1 < merge->heap_count && is_before(heap[child + 1], heap[child]))
            child++;
        if (is_before(moved, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Raises the limit of open files, because a folder may contain more files. */
static void permit_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/*
 * Opens all sources. Returns false if a log cannot be opened; each such log is named on standard
 * error.
 */
static bool gf_log_merge_begin(struct gf_log_merge *merge, const struct gf_sources *sources)
{
    bool whole = true;

    *merge = (struct gf_log_merge){.inputs = gf_cli_alloc(sources->count, sizeof(*merge->inputs)),
                                   .heap = gf_cli_alloc(sources->count, sizeof(void *))};
    permit_files();
    for (size_t i = 0; i < sources->count; i++) {
        struct gf_merge_input *input = &merge->inputs[merge->count];
        const int fd = gf_source_open(&sources->list[i]);
        if (fd < 0) {
            gf_cli_error("report", "cannot read %s: %s", gf_source_name(&sources->list[i]),
                         gf_source_reason(fd));
            whole = false;
            continue;
        }
        merge->count++;
        input->line.source = &sources->list[i];
        input->line.log = &input->log;
        gf_line_reader_begin(&input->lines, fd);
        read_log_line(input);
        if (input->open)
            merge->heap[merge->heap_count++] = input;
    }
    for (size_t i = merge->heap_count / 2; i-- > 0;)
        sift_down(merge, i);
    return whole;
}

/* Returns the earliest remaining line; NULL at the end. */
static struct gf_merged_line *gf_log_merge_next(struct gf_log_merge *merge)
{
    if (merge->last && merge->last->open)
        read_log_line(merge->last);
    if (merge->last && !merge->last->open)
        merge->heap[0] = merge->heap[--merge->heap_count];
    if (merge->heap_count)
        sift_down(merge, 0);
    merge->last = merge->heap_count ? merge->heap[0] : NULL;
    return merge->last ? &merge->last->line : NULL;
}

/*
 * Closes all inputs. Returns false if a log could not be read; each such log is named on standard
 * error.
 */
static bool gf_log_merge_end(struct gf_log_merge *merge)
{
    bool whole = true;

    for (size_t i = 0; i < merge->count; i++) {
        struct gf_merge_input *input = &merge->inputs[i];
        if (input->lines.error) {
            gf_cli_error("report", "cannot read %s: %s", gf_source_name(input->line.source),
                         strerror(input->lines.error));
            whole = false;
        }
        gf_job_log_free(&input->log);
        gf_line_reader_end(&input->lines);
        close(input->lines.fd);
    }
    free(merge->inputs);
    free(merge->heap);
    *merge = (struct gf_log_merge){0};
    return whole;
}

/* How many events and damaged lines of a log were read so far. */
struct known {
    unsigned events, bad;
    bool refused; /* an error about the file was printed */
};

/*
 * Called for a file in which only `bad` damaged lines and no event were read so far. Returns true
 * if the file is not a log; then also prints an error if an operand names the file.
 */
static bool is_foreign(const struct gf_merged_line *line, unsigned bad)
{
    const bool is_report = bad == 1 && gf_span_is(line->text, "{");
    const char *name = gf_source_name(line->source);

    if (!is_report && bad <= GF_FOREIGN_LINES)
        return false;
    if (line->source->is_named)
        gf_cli_error("report",
                     is_report ? "%s is a report (GPUFEED_REPORT), which has no events"
                               : "%s is not a log (GPUFEED_LOG)",
                     name);
    return true;
}

static bool takes(struct gf_job *job, const struct gf_merged_line *line,
                  const struct gf_job_filter *filter)
{
    if (filter->rank_count) {
        const uint32_t process = gf_job_process_of(job, line->log, &line->event);
        if (!gf_job_filter_takes_rank(filter, job->processes[process].rank))
            return false;
    }
    return gf_event_time(&line->event) >= filter->since;
}

/*
 * Prints the line's event if it passes the filter. Returns false if the file is not a log, so that
 * the caller skips the rest of the file; then also sets *ret_failed if an operand names the file.
 */
static bool print_line(struct gf_job *job, const struct gf_merged_line *line, struct known *known,
                       const struct gf_job_filter *filter, bool *ret_failed)
{
    if (line->is_event && !takes(job, line, filter)) {
        known->events++;
        return true;
    }
    if (line->is_event && gf_event_print(line->text)) {
        known->events++;
        return true;
    }
    known->bad++;
    known->refused = !known->events && is_foreign(line, known->bad);
    if (known->refused) {
        *ret_failed = line->source->is_named || *ret_failed;
        return false;
    }
    gf_cli_error("report", "%s:%lu is not an event", gf_source_name(line->source), line->number);
    return true;
}

/* Called at the end of all logs. Whether an operand names a file that has lines, but no event. */
static bool is_short_text(const struct gf_source *source, const struct known *known)
{
    if (!source->is_named || known->refused || known->events || !known->bad)
        return false;
    gf_cli_error("report", "%s has no event of a log (GPUFEED_LOG)", gf_source_name(source));
    return true;
}

bool gf_event_list_print(const struct gf_sources *sources, const struct gf_job_filter *filter)
{
    struct known *known = gf_cli_alloc(sources->count, sizeof(*known));
    struct gf_job job = {0};
    struct gf_log_merge merge;
    struct gf_merged_line *line;
    bool failed = !gf_log_merge_begin(&merge, sources);

    while ((line = gf_log_merge_next(&merge)))
        if (!print_line(&job, line, &known[line->source - sources->list], filter, &failed))
            merge.last->open = false; /* skips the rest of the log */
    for (size_t i = 0; i < sources->count; i++)
        failed = is_short_text(&sources->list[i], &known[i]) || failed;
    failed = !gf_log_merge_end(&merge) || failed;
    gf_job_free(&job);
    free(known);
    return !failed;
}
