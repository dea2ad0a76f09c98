/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output_file.h"
#include "tools/answer/answer_json.h"
#include "tools/answer/answer_text.h"
#include "tools/answer/sentences.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/job/frame_name.h"
#include "tools/job/read_job.h"
#include "tools/report/event_list.h"
#include "tools/report/event_text.h"
#include "tools/report/folded.h"
#include "tools/report/html.h"
#include "tools/report/perfetto.h"
#include "tools/report/prometheus.h"
#include "tools/report/report_flags.h"

#include <fcntl.h>
#include <stdio.h>

/* Replaces a file atomically: writes a new file in the same folder, and renames it. */
struct gf_out_file {
    FILE *stream;
    struct gf_output output;
};

/* Opens the file by gf_output_begin; "-" is standard output. Returns 0 or -errno. */
static int gf_out_file_begin(struct gf_out_file *file, const char *path, enum gf_output_flags flags)
{
    *file = (struct gf_out_file){.stream = stdout};
    if (strcmp(path, "-") == 0)
        return 0;
    const int error = gf_output_begin(&file->output, path, flags);
    if (error)
        return error;
    /* Opening a pipe must not wait, but writing may: its reader has opened it. */
    fcntl(file->output.fd, F_SETFL, fcntl(file->output.fd, F_GETFL) & ~O_NONBLOCK);
    const int copy = fcntl(file->output.fd, F_DUPFD_CLOEXEC, 0);
    file->stream = copy < 0 ? NULL : fdopen(copy, "w");
    if (file->stream)
        return 0;
    gf_output_end(&file->output, false);
    return -ENOMEM;
}

/*
 * Closes the new file. If each write succeeded, renames it to the path, otherwise deletes it.
 * Returns 0 or -errno.
 */
static int gf_out_file_end(struct gf_out_file *file)
{
    int error = 0;

    if (file->stream == stdout)
        return 0; /* main checks standard output for errors */
    if (fflush(file->stream) || ferror(file->stream))
        error = errno ? -errno : -EIO;
    if (fclose(file->stream) && !error)
        error = -errno;
    const int ended = gf_output_end(&file->output, !error);
    return error ? error : ended;
}

typedef void writer(FILE *out, const struct gf_answer *answer);

static struct gf_torch_trace torch; /* of --with */

static void write_perfetto(FILE *out, const struct gf_answer *answer)
{
    gf_perfetto_write(out, answer, torch.text.size ? &torch : NULL);
}

/* Writes the file `path`; does nothing if path is NULL. */
static int write_file(const char *path, writer *write, enum gf_output_flags flags,
                      const struct gf_answer *answer)
{
    struct gf_out_file file;

    if (!path)
        return GF_EXIT_OK;
    int error = gf_out_file_begin(&file, path, flags);
    if (!error) {
        write(file.stream, answer);
        error = gf_out_file_end(&file);
    }
    if (error)
        return gf_cli_fail(GF_EXIT_FAILED, "report", "cannot write %s: %s", path,
                           gf_output_reason(error));
    return GF_EXIT_OK;
}

static int open_torch(const char *path)
{
    const int error = path ? gf_torch_trace_open(path, &torch) : 0;

    if (!error)
        return GF_EXIT_OK;
    if (error == -EINVAL)
        gf_cli_error("report", "%s is not a trace of PyTorch's profiler", path);
    else if (error == -ENOTSUP)
        gf_cli_error("report", "%s has no absolute times: PyTorch without Kineto wrote it", path);
    else if (error == -EPROTONOSUPPORT)
        gf_cli_error("report", "%s is compressed; decompress it first (gunzip)", path);
    else
        gf_cli_error("report", "cannot read %s: %s", path, strerror(-error));
    return GF_EXIT_FAILED;
}

/* Prints the names of the written files, unless standard output is one of them. */
static void print_written(const char *const files[GF_FILES])
{
    for (size_t i = 0; i < GF_FILES_WRITTEN; i++)
        if (files[i] && strcmp(files[i], "-") == 0)
            return;
    for (size_t i = 0; i < GF_FILES_WRITTEN; i++)
        if (files[i])
            printf("wrote %s\n", files[i]);
}

static int write_files(const char *const files[GF_FILES], const struct gf_answer *answer)
{
    static writer *const writers[] = {gf_html_write, write_perfetto, gf_prometheus_write};
    int code = open_torch(files[GF_FILE_WITH]);

    for (size_t i = 0; i < GF_FILES_WRITTEN && code == GF_EXIT_OK; i++)
        code = write_file(files[i], writers[i],
                          i == GF_FILE_PROMETHEUS ? gf_output_shared : gf_output_private, answer);
    if (code == GF_EXIT_OK)
        print_written(files);
    gf_torch_trace_close(&torch);
    return code;
}

static int show_answer(const struct gf_report_flags *flags, const struct gf_job *job,
                       const struct gf_read_counts *counts)
{
    struct gf_answer answer;
    int code = GF_EXIT_OK;

    gf_answer_make(job, counts, &answer);
    gf_verdict_say(&answer);
    if (gf_report_flags_write(flags))
        code = write_files(flags->files, &answer);
    else if (flags->form == GF_FORM_JSON)
        gf_cli_print_json(gf_answer_json(&answer, flags->top, flags->by));
    else
        gf_answer_print(stdout, &answer, flags->top, flags->by);
    gf_answer_free(&answer);
    return code;
}

static int show_job(const struct gf_report_flags *flags, const struct gf_job *job,
                    const struct gf_read_counts *counts)
{
    if (flags->idle) {
        if (gf_idle_folded_print(stdout, job, flags->by == GF_BY_RANK))
            return GF_EXIT_OK;
        return gf_cli_fail(GF_EXIT_FAILED, "report",
                           "--idle needs a report (GPUFEED_REPORT) with Python stacks: no report "
                           "has one");
    }
    if (flags->form == GF_FORM_FOLDED && job->process_count && !gf_job_has_log(job))
        return gf_cli_fail(GF_EXIT_FAILED, "report",
                           "--folded needs a log (GPUFEED_LOG): a report has no stacks");
    if (flags->form != GF_FORM_FOLDED)
        return show_answer(flags, job, counts);
    gf_folded_print(stdout, job, flags->by);
    return GF_EXIT_OK;
}

static int read_and_show(struct gf_report_flags *flags)
{
    struct gf_job job = {0};
    struct gf_read_counts counts;
    char why[160];
    int code = GF_EXIT_OK;
    const bool whole = gf_read_job(&flags->sources, &job, &counts);

    if (flags->form == GF_FORM_EVENTS) {
        flags->filter.since = gf_job_filter_moment(&job, &flags->filter);
    } else if (whole || job.process_count) {
        gf_job_filter_apply(&job, &flags->filter);
        if (gf_job_filter_is_empty(&job, &flags->filter, why, sizeof(why))) {
            gf_cli_error("report", "%s", why);
            code = GF_EXIT_FAILED;
        } else {
            code = show_job(flags, &job, &counts);
            if (!counts.logs && !counts.reports && !counts.doctors && !counts.empty)
                code = GF_EXIT_FAILED; /* "There is no log and no report." */
        }
    }
    gf_job_free(&job);
    return whole ? code : GF_EXIT_FAILED;
}

int gf_cmd_report(int argc, char **argv)
{
    struct gf_report_flags flags;
    bool done;
    int code = gf_report_flags_read(argc, argv, &flags, &done);

    if (!done && code == GF_EXIT_OK) {
        gf_bus_error_survive();
        if (flags.form != GF_FORM_EVENTS ||
            (gf_job_filter_needs_job(&flags.filter) && !flags.reads_stdin))
            code = read_and_show(&flags);
        if (flags.form == GF_FORM_EVENTS && code == GF_EXIT_OK)
            code = gf_event_list_print(&flags.sources, &flags.filter) ? GF_EXIT_OK : GF_EXIT_FAILED;
        gf_stall_text_end();
        gf_frame_name_end();
    }
    gf_sources_free(&flags.sources);
    return code;
}
