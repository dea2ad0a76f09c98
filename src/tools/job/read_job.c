/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_input.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "tools/common/cli.h"

#include <stdio.h>

#define REPORT_MAX_BYTES ((size_t)256 << 20)
#define LINES_PER_PROGRESS 4096

struct reading {
    struct gf_job *job;
    json_t *reports;
    struct gf_read_counts *counts;
    size_t done, total; /* sources */
    /* When the progress line on standard error is due; UINT64_MAX without a terminal. */
    uint64_t progress_ns;
    bool has_progress; /* the line is shown */
};

/* Updates the line at most five times per second. Shows nothing in the first half second. */
static void show_progress(struct reading *reading, size_t done, uint64_t bytes)
{
    if (gf_now_ns() < reading->progress_ns)
        return;
    fprintf(stderr, "\rread %zu of %zu files, %lu MB", done, reading->total,
            (reading->counts->bytes + bytes) / 1000000);
    reading->has_progress = true;
    reading->progress_ns = gf_now_ns() + 200000000;
}

/* One source. */
struct state {
    const struct gf_source *source;
    struct gf_line_reader lines;
    struct gf_job_log log;
    uint64_t events, bad;
    unsigned reports;
    bool foreign, is_doctor;
    bool has_event_cut; /* a damaged line begins like an event */
    bool is_report_cut; /* the text begins like a report, but is not valid */
};

static struct gf_span trimmed(struct gf_span line)
{
    while (line.size && strchr(" \t\r", *line.at) && *line.at) {
        line.at++;
        line.size--;
    }
    while (line.size && strchr(" \t\r", line.at[line.size - 1]) && line.at[line.size - 1])
        line.size--;
    return line;
}

/* Reports and findings of the doctor are written as indented JSON; other tools may write them as one line. */
static bool begins_report(struct gf_span line, const struct gf_event *event)
{
    static const char findings[] = "{\"schema\":";

    return gf_span_is(line, "{") ||
           (!event->event.size &&
            (event->started.size || (line.size >= sizeof(findings) &&
                                     memcmp(line.at, findings, sizeof(findings) - 1) == 0)));
}

static void note_damage(struct reading *reading, struct state *state)
{
    struct gf_read_counts *counts = reading->counts;

    counts->damaged++;
    state->bad++;
    if (!*counts->first_damaged)
        snprintf(counts->first_damaged, sizeof(counts->first_damaged), "%.480s:%lu",
                 gf_source_name(state->source), state->lines.number);
    gf_plain_text(counts->first_damaged);
}

static bool read_report(struct reading *reading, struct state *state, struct gf_span line)
{
    struct gf_span text;

    if (!gf_line_reader_rest(&state->lines, line, REPORT_MAX_BYTES, &text))
        return false;
    state->reports += gf_report_file_add(reading->reports, text);
    if (!state->reports)
        state->is_doctor =
            gf_report_file_add_doctor(reading->job, text, gf_source_name(state->source));
    state->is_report_cut = !state->reports && !state->is_doctor && gf_report_file_begins(text);
    return state->reports || state->is_doctor;
}

/* Reads one line. Returns false if the rest of the source is to be skipped. */
static bool read_line(struct reading *reading, struct state *state, struct gf_span whole)
{
    const struct gf_span line = trimmed(whole);
    struct gf_event event;

    if (!line.size)
        return true; /* the library begins a write with a newline if the last one was cut short */
    const bool is_event = gf_event_read(line, &event) && event.event.size;
    if (!state->events && begins_report(line, &event) && read_report(reading, state, whole))
        return false;
    if (is_event) {
        state->events++;
        gf_job_add_event(reading->job, &state->log, &event);
        return true;
    }
    note_damage(reading, state);
    state->has_event_cut |= event.event.size != 0;
    state->foreign = !state->events && state->bad > GF_FOREIGN_LINES;
    return !state->foreign;
}

/*
 * Whether the source has lines, but neither events nor a report. The log of a running process may
 * have a single line that is still incomplete.
 */
static bool is_text_only(const struct state *state)
{
    return state->bad && !state->events && !state->reports && !state->is_doctor &&
           !state->has_event_cut && !state->is_report_cut;
}

static bool report_failure(const struct state *state)
{
    const char *name = gf_source_name(state->source);

    if (state->lines.error)
        gf_cli_error("cannot read %s: %s", name, strerror(state->lines.error));
    else if (state->source->is_named && state->is_report_cut)
        gf_cli_error("%s begins like a report (GPUFEED_REPORT), but is cut off or damaged", name);
    else if (state->source->is_named && state->foreign)
        gf_cli_error("%s is neither a log (GPUFEED_LOG) nor a report (GPUFEED_REPORT)", name);
    else
        return false;
    return true;
}

static void count_source(struct gf_read_counts *counts, const struct state *state)
{
    counts->lines += state->events + state->bad;
    counts->bytes += state->lines.bytes;
    counts->reports += state->reports;
    counts->doctors += state->is_doctor;
    if (state->foreign) {
        counts->foreign += !state->source->is_named;
        counts->lines -= state->bad;
        counts->damaged -= state->bad;
        if (!counts->damaged)
            *counts->first_damaged = '\0';
    } else if (!state->reports && !state->is_doctor && !state->is_report_cut) {
        *(state->events || state->bad ? &counts->logs : &counts->empty) += 1;
    }
}

/* Reads the whole source, or up to its first event. Returns 0 or an error of gf_source_open. */
static int read_lines(struct reading *reading, struct state *state, bool whole)
{
    const int fd = gf_source_open(state->source);
    struct gf_span line;
    uint64_t at = 0;

    if (fd < 0)
        return fd;
    gf_line_reader_begin(&state->lines, fd);
    while ((whole || !state->events) && gf_line_reader_next(&state->lines, &line) &&
           read_line(reading, state, line))
        if (++at % LINES_PER_PROGRESS == 0)
            show_progress(reading, reading->done, state->lines.bytes);
    gf_job_log_free(&state->log);
    gf_line_reader_end(&state->lines);
    close(fd);
    return 0;
}

static bool read_source(struct reading *reading, const struct gf_source *source)
{
    struct state state = {.source = source};
    const int error = read_lines(reading, &state, true);

    if (error) {
        gf_cli_error("cannot read %s: %s", gf_source_name(source), gf_source_reason(error));
        return false;
    }
    state.foreign |= is_text_only(&state);
    const bool failed = report_failure(&state);
    count_source(reading->counts, &state);
    return !failed;
}

bool gf_read_job(const struct gf_sources *sources, struct gf_job *job, struct gf_read_counts *ret)
{
    struct reading reading = {
        .job = job,
        .reports = json_array(),
        .counts = ret,
        .total = sources->count,
        .progress_ns = isatty(STDERR_FILENO) == 1 ? gf_now_ns() + 500000000 : UINT64_MAX,
    };
    bool whole = true;

    *ret = (struct gf_read_counts){.repeated = sources->repeated};
    for (; reading.done < sources->count; reading.done++) {
        whole = read_source(&reading, &sources->list[reading.done]) && whole;
        show_progress(&reading, reading.done + 1, 0);
    }
    if (reading.has_progress)
        fputs("\r\033[K", stderr); /* removes the line */
    gf_report_file_join(job, reading.reports);
    json_decref(reading.reports);
    return whole;
}

bool gf_read_job_takes(const char *path)
{
    const struct gf_source source = {.path = (char *)(uintptr_t)path};
    struct gf_job job = {0};
    struct gf_read_counts counts = {0};
    struct reading reading = {
        .job = &job, .reports = json_array(), .counts = &counts, .progress_ns = UINT64_MAX};
    struct state state = {.source = &source};

    read_lines(&reading, &state, false);
    json_decref(reading.reports);
    gf_job_free(&job);
    return state.events || state.reports || state.is_doctor;
}
