/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/log_merge.h"

#include "cli/common/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Reads the next line that is not empty. A log may contain empty lines: after a write that was cut
 * short, the library begins the next write with a newline.
 */
static void read_line(struct gf_merge_input *input)
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

/* Raises the limit of open files, because a folder may contain more files. */
static void permit_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool gf_log_merge_begin(struct gf_log_merge *merge, const struct gf_sources *sources)
{
    bool whole = true;

    *merge = (struct gf_log_merge){.inputs = calloc(sources->count + 1, sizeof(*merge->inputs))};
    if (!merge->inputs)
        return false;
    permit_files();
    for (size_t i = 0; i < sources->count; i++) {
        struct gf_merge_input *input = &merge->inputs[merge->count];
        const int fd = gf_source_open(&sources->list[i]);
        if (fd < 0) {
            gf_cli_error("report", "cannot read %s: %s", gf_source_name(&sources->list[i]),
                         strerror(-fd));
            whole = false;
            continue;
        }
        merge->count++;
        input->source = input->line.source = &sources->list[i];
        input->line.log = &input->log;
        gf_line_reader_begin(&input->lines, fd);
        read_line(input);
    }
    return whole;
}

struct gf_merged_line *gf_log_merge_next(struct gf_log_merge *merge)
{
    struct gf_merge_input *first = NULL;

    if (merge->last && merge->last->open)
        read_line(merge->last);
    for (size_t i = 0; i < merge->count; i++)
        if (merge->inputs[i].open && (!first || merge->inputs[i].time < first->time))
            first = &merge->inputs[i];
    merge->last = first;
    return first ? &first->line : NULL;
}

void gf_log_merge_drop(struct gf_log_merge *merge)
{
    if (merge->last)
        merge->last->open = false;
}

bool gf_log_merge_end(struct gf_log_merge *merge)
{
    bool whole = true;

    for (size_t i = 0; i < merge->count; i++) {
        struct gf_merge_input *input = &merge->inputs[i];
        if (input->lines.error) {
            gf_cli_error("report", "cannot read %s: %s", gf_source_name(input->source),
                         strerror(input->lines.error));
            whole = false;
        }
        gf_job_log_free(&input->log);
        gf_line_reader_end(&input->lines);
        close(input->lines.fd);
    }
    free(merge->inputs);
    *merge = (struct gf_log_merge){0};
    return whole;
}
