/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output_file.h"
#include "base/parse.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/report/outputs.h"

#include <fcntl.h>

enum gf_report_form { GF_FORM_ANSWER, GF_FORM_JSON, GF_FORM_EVENTS, GF_FORM_FOLDED };

/* The files that flags name: those to write, then PyTorch's trace, which the Perfetto trace contains. */
enum { GF_FILE_HTML, GF_FILE_PERFETTO, GF_FILE_PROMETHEUS, GF_FILE_WITH, GF_FILES };
#define GF_FILES_WRITTEN GF_FILE_WITH

/* The command line of `gpufeed report`. The strings point into argv. */
struct gf_report_flags {
    enum gf_report_form form;
    bool idle;     /* the folded stacks are those of time without work */
    enum gf_by by; /* GF_BY_COUNT if not given */
    unsigned top;
    const char *files[GF_FILES]; /* NULL if not given */
    struct gf_job_filter filter;
    unsigned operands;
    bool reads_stdin;
    struct gf_sources sources;
};

/* Whether the answer is written to files instead of being printed. */
static bool writes_files(const struct gf_report_flags *flags)
{
    return flags->files[GF_FILE_HTML] || flags->files[GF_FILE_PERFETTO] ||
           flags->files[GF_FILE_PROMETHEUS];
}

#define TOP_ANSWER 3 /* rows of each table of the answer, which fits on a screen */
#define TOP_JSON 5
#define TOP_BY 20 /* rows of the table that --by selects */
#define TOP_MAX 100000

enum {
    FLAG_TOP = 1,
    FLAG_BY,
    FLAG_SINCE,
    FLAG_RANK,
    FLAG_JSON,
    FLAG_EVENTS,
    FLAG_FOLDED,
    FLAG_IDLE,
    FLAG_HTML, /* from here on in the order of gf_report_flags.files */
    FLAG_PERFETTO,
    FLAG_PROMETHEUS,
    FLAG_WITH,
};

static const struct option flag_table[] = {
    {"top", required_argument, NULL, FLAG_TOP},
    {"by", required_argument, NULL, FLAG_BY},
    {"since", required_argument, NULL, FLAG_SINCE},
    {"rank", required_argument, NULL, FLAG_RANK},
    {"json", no_argument, NULL, FLAG_JSON},
    {"events", no_argument, NULL, FLAG_EVENTS},
    {"folded", no_argument, NULL, FLAG_FOLDED},
    {"idle", no_argument, NULL, FLAG_IDLE},
    {"html", required_argument, NULL, FLAG_HTML},
    {"perfetto", required_argument, NULL, FLAG_PERFETTO},
    {"with", required_argument, NULL, FLAG_WITH},
    {"prometheus", required_argument, NULL, FLAG_PROMETHEUS},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

static void print_report_help(void)
{
    puts("Usage: gpufeed report [flags] PATH...\n\n"
         "Shows what a job waited for, in one screen. PATH is a log (GPUFEED_LOG), a\n"
         "report (GPUFEED_REPORT), the output of `gpufeed doctor --json`, a folder of\n"
         "them, or - for standard input. Give the files of all ranks together.\n\n"
         "Without flags, the answer has:\n"
         "  where it stands       \"No step ended any more\": which ranks, at which line\n"
         "  which rank is slow    the first sentence, or \"No rank differs\";\n"
         "                        all ranks: --by rank\n"
         "  what and which line   \"The main cause of stalls\"; GPU time, and stalls by\n"
         "                        call site\n"
         "  since when            \"Since ...\": the time, the step and how much slower\n"
         "  did staging help      \"Staging ...\": rates of copies through the library's\n"
         "                        ring, and of the driver\n"
         "  what to change        \"What helps\", the slowest rank first, then the largest\n"
         "                        gain\n"
         "A stall is an allocation, a free or a wait on an idle GPU that took longer than\n"
         "its limit.\n\n"
         "  --top N        show N rows of each table (default 3; 20 with --by, 5 with\n"
         "                 --json)\n"
         "  --by PROPERTY  only the table by cause, site (line), rank, step or thread\n"
         "  --since TIME   only stalls and steps from a local time on (08:51:09,\n"
         "                 \"2026-11-23 08:51\"), or of the job's last part (10m, 2h)\n"
         "  --rank LIST    only these ranks, such as 0,4-7\n"
         "  --json         the answer as JSON (docs/reading.md, docs/schema/answer.json)\n"
         "  --events       every event in full, merged by time\n"
         "  --folded       stalled microseconds per stack, for flame graph tools and\n"
         "                 speedscope; --by makes the property the first frame\n"
         "  --idle         with --folded: microseconds in which GPUs had nothing to do per\n"
         "                 Python stack and cause, from reports; --by can be rank\n"
         "  --html FILE    a page with the answer, a timeline and a flame graph, which\n"
         "                 makes no requests\n"
         "  --perfetto FILE    a trace for ui.perfetto.dev; --with TRACE adds a trace of\n"
         "                     PyTorch's profiler on the same clock\n"
         "  --prometheus FILE  metrics for node_exporter's textfile collector\n\n"
         "Exit code: 0; 1 if a file cannot be read or written; 2 if the command line is\n"
         "not valid.\n\n"
         "Causes of stalls:");
    gf_helps_print_causes();
    puts("\nDamaged lines are skipped and counted. In a native stack, a function has a name\n"
         "only if its executable or library is unchanged.");
}

static int refuse(const char *flag, const char *expected)
{
    return gf_cli_fail(GF_EXIT_USAGE, "--%s: %s is not %s", flag, optarg, expected);
}

static int read_by(struct gf_report_flags *ret)
{
    for (enum gf_by by = 0; by < GF_BY_COUNT; by++)
        if (strcmp(optarg, gf_by_names[by]) == 0) {
            ret->by = by;
            return GF_EXIT_OK;
        }
    return refuse("by", "a property: cause, site, rank, step or thread");
}

static int read_form(struct gf_report_flags *ret, enum gf_report_form form)
{
    if (ret->form != GF_FORM_ANSWER && ret->form != form)
        return gf_cli_fail(GF_EXIT_USAGE, "--json, --events and --folded exclude each other");
    ret->form = form;
    return GF_EXIT_OK;
}

static int read_flag(void *closure, int code, const struct gf_flags *reader)
{
    struct gf_report_flags *ret = closure;
    uint64_t number;

    switch (code) {
    case FLAG_TOP:
        if (gf_parse_u64(optarg, &number) || !number || number > TOP_MAX)
            return refuse("top", "a number from 1 to 100000");
        ret->top = (unsigned)number;
        return GF_EXIT_OK;
    case FLAG_BY:
        return read_by(ret);
    case FLAG_SINCE:
        return gf_job_filter_since(&ret->filter, optarg)
                   ? GF_EXIT_OK
                   : refuse("since", "a time (08:51, \"2026-11-23 08:51\") or a length (10m)");
    case FLAG_RANK:
        return gf_job_filter_ranks(&ret->filter, optarg)
                   ? GF_EXIT_OK
                   : refuse("rank", "a list of ranks, such as 0,4-7");
    case FLAG_JSON:
        return read_form(ret, GF_FORM_JSON);
    case FLAG_EVENTS:
        return read_form(ret, GF_FORM_EVENTS);
    case FLAG_FOLDED:
        return read_form(ret, GF_FORM_FOLDED);
    case FLAG_IDLE:
        ret->idle = true;
        return GF_EXIT_OK;
    case FLAG_HTML:
    case FLAG_PERFETTO:
    case FLAG_PROMETHEUS:
    case FLAG_WITH:
        ret->files[code - FLAG_HTML] = optarg;
        return GF_EXIT_OK;
    default:
        return gf_cli_fail(GF_EXIT_USAGE, "--%s needs a value", reader->flag->name);
    }
}

static int add_source(void *closure, const char *path)
{
    struct gf_report_flags *ret = closure;
    const int error = gf_sources_add(&ret->sources, path);

    ret->operands++;
    if (!error)
        return GF_EXIT_OK;
    if (error == -EFBIG)
        return gf_cli_fail(GF_EXIT_FAILED,
                           "%s has more than %d files; name the folder of the job's logs", path,
                           GF_SOURCES_MAX);
    return gf_cli_fail(GF_EXIT_FAILED, "cannot read %s: %s", path, strerror(-error));
}

/* Whether two of the output files have the same path, so that one would overwrite the other. */
static bool has_same_file(const struct gf_report_flags *ret)
{
    for (size_t i = 0; i < GF_FILES; i++)
        for (size_t k = 0; k < i; k++)
            if (ret->files[i] && ret->files[k] && strcmp(ret->files[i], ret->files[k]) == 0)
                return true;
    return false;
}

static int check_files(const struct gf_report_flags *ret)
{
    const char *error = NULL;

    if (ret->files[GF_FILE_WITH] && !ret->files[GF_FILE_PERFETTO])
        error = "--with needs --perfetto FILE";
    else if (ret->idle && ret->form != GF_FORM_FOLDED)
        error = "--idle needs --folded";
    else if (ret->idle && ret->by != GF_BY_COUNT && ret->by != GF_BY_RANK)
        error = "with --idle, --by can only be rank";
    else if (has_same_file(ret))
        error = "--html, --perfetto, --prometheus and --with need different files";
    else if (writes_files(ret) && (ret->form != GF_FORM_ANSWER || ret->by != GF_BY_COUNT))
        error = "--html, --perfetto and --prometheus exclude --json, --events, --folded and --by";
    return error ? gf_cli_fail(GF_EXIT_USAGE, "%s", error) : GF_EXIT_OK;
}

/* Whether a log or a report would be overwritten. Another user's link would be replaced. */
static bool is_input(const char *path)
{
    const int fd = gf_output_find(path);
    const bool takes = fd >= 0 && gf_read_job_takes(gf_text("/proc/self/fd/%d", fd));

    if (fd >= 0)
        close(fd);
    return takes;
}

/*
 * Refuses to overwrite a log or a report. A flag without its FILE takes the first path, as in
 * `--html log.0 log.1`.
 */
static int check_written(const struct gf_report_flags *given, bool has_operands)
{
    static const char *const names[] = {"html", "perfetto", "prometheus"};

    for (size_t i = 0; i < GF_FILES_WRITTEN; i++) {
        if (!given->files[i] || !is_input(given->files[i]))
            continue;
        return gf_cli_fail(
            GF_EXIT_USAGE,
            has_operands ? "--%s would overwrite %s, which is a log or a report; name the file to "
                           "write first: --%s FILE PATH..."
                         : "--%s took %s as the file to write; name both: --%s FILE PATH...",
            names[i], given->files[i], names[i]);
    }
    if (has_operands)
        return GF_EXIT_OK;
    return gf_cli_fail(GF_EXIT_USAGE, "no log or report to show: gpufeed report PATH...");
}

/* Refuses flags that contradict each other, or have no effect. */
static int check(struct gf_report_flags *ret)
{
    if (!ret->operands)
        return check_written(ret, false);
    gf_sources_drop_repeated(&ret->sources);
    for (size_t i = 0; i < ret->sources.count; i++)
        ret->reads_stdin |= strcmp(gf_source_name(&ret->sources.list[i]), "standard input") == 0;
    if (ret->form == GF_FORM_EVENTS && ret->filter.last_s > 0 && ret->reads_stdin)
        return gf_cli_fail(GF_EXIT_USAGE,
                           "with --events and standard input, --since needs a time instead of a "
                           "length, because standard input can be read only once");
    if (ret->form == GF_FORM_EVENTS && ret->by != GF_BY_COUNT)
        return gf_cli_fail(GF_EXIT_USAGE, "--by has no effect on --events");
    return check_files(ret) ?: check_written(ret, true);
}

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

/* Writes the file `path`; does nothing if path is NULL. Bytes of the trace of --with are copied as they are. */
static int write_file(const char *path, writer *write, enum gf_output_flags flags, bool has_trace,
                      const struct gf_answer *answer)
{
    struct gf_out_file file;

    if (!path)
        return GF_EXIT_OK;
    int error = gf_out_file_begin(&file, path, flags);
    const bool is_terminal = !error && has_trace && isatty(fileno(file.stream));
    if (!error) {
        if (!is_terminal)
            write(file.stream, answer);
        error = gf_out_file_end(&file);
    }
    if (is_terminal)
        return gf_cli_fail(
            GF_EXIT_USAGE,
            "a terminal may execute bytes of the trace of --with; write --perfetto to a file");
    if (error)
        return gf_cli_fail(GF_EXIT_FAILED, "cannot write %s: %s", path, gf_output_reason(error));
    return GF_EXIT_OK;
}

static int open_torch(const char *path)
{
    const int error = path ? gf_torch_trace_open(path) : 0;

    if (!error)
        return GF_EXIT_OK;
    if (error == -EINVAL)
        gf_cli_error("%s is not a trace of PyTorch's profiler", path);
    else if (error == -ENOTSUP)
        gf_cli_error("%s has no absolute times: PyTorch without Kineto wrote it", path);
    else if (error == -EPROTONOSUPPORT)
        gf_cli_error("%s is compressed; decompress it first (gunzip)", path);
    else
        gf_cli_error("cannot read %s: %s", path, strerror(-error));
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
    static writer *const writers[] = {gf_html_write, gf_perfetto_write, gf_prometheus_write};
    int code = open_torch(files[GF_FILE_WITH]);

    for (size_t i = 0; i < GF_FILES_WRITTEN && code == GF_EXIT_OK; i++)
        code = write_file(files[i], writers[i],
                          i == GF_FILE_PROMETHEUS ? gf_output_shared : gf_output_private,
                          i == GF_FILE_PERFETTO && files[GF_FILE_WITH], answer);
    if (code == GF_EXIT_OK)
        print_written(files);
    gf_torch_trace_close();
    return code;
}

static int show_answer(const struct gf_report_flags *flags, const struct gf_job *job,
                       const struct gf_read_counts *counts)
{
    struct gf_answer answer;
    int code = GF_EXIT_OK;

    gf_answer_make(job, counts, &answer);
    gf_verdict_say(&answer);
    if (writes_files(flags))
        code = write_files(flags->files, &answer);
    else if (flags->form == GF_FORM_JSON)
        gf_cli_print_json(gf_answer_json(&answer, flags->top, flags->by, SIZE_MAX));
    else
        gf_answer_print(&answer, flags->top, flags->by);
    gf_answer_free(&answer);
    return code;
}

static int show_job(const struct gf_report_flags *flags, const struct gf_job *job,
                    const struct gf_read_counts *counts)
{
    if (flags->idle) {
        if (gf_idle_folded_print(job, flags->by == GF_BY_RANK))
            return GF_EXIT_OK;
        return gf_cli_fail(GF_EXIT_FAILED,
                           "--idle needs a report (GPUFEED_REPORT) with Python stacks: no report "
                           "has one");
    }
    if (flags->form == GF_FORM_FOLDED && job->process_count && !gf_job_has_log(job))
        return gf_cli_fail(GF_EXIT_FAILED,
                           "--folded needs a log (GPUFEED_LOG): a report has no stacks");
    if (flags->form != GF_FORM_FOLDED)
        return show_answer(flags, job, counts);
    gf_folded_print(job, flags->by);
    return GF_EXIT_OK;
}

static int read_and_show(struct gf_report_flags *flags)
{
    struct gf_job job = {0};
    struct gf_read_counts counts;
    int code = GF_EXIT_OK;
    const bool whole = gf_read_job(&flags->sources, &job, &counts);

    if (flags->form == GF_FORM_EVENTS) {
        flags->filter.since = gf_job_filter_moment(&job, &flags->filter);
    } else if (whole || job.process_count) {
        gf_job_filter_apply(&job, &flags->filter);
        const char *why = gf_job_filter_emptied(&job, &flags->filter);
        if (why) {
            code = gf_cli_fail(GF_EXIT_FAILED, "%s", why);
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
    static const struct gf_words words = {print_report_help, read_flag, add_source, false};
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flag_table};
    struct gf_report_flags flags = {.by = GF_BY_COUNT};
    int code;

    if (gf_flags_read(&reader, &words, &flags, &code) && !(code = check(&flags))) {
        if (!flags.top)
            flags.top = flags.form == GF_FORM_JSON ? TOP_JSON
                        : flags.by == GF_BY_COUNT  ? TOP_ANSWER
                                                   : TOP_BY;
        gf_bus_error_survive();
        if (flags.form != GF_FORM_EVENTS ||
            (gf_job_filter_needs_job(&flags.filter) && !flags.reads_stdin))
            code = read_and_show(&flags);
        if (flags.form == GF_FORM_EVENTS && code == GF_EXIT_OK)
            code = gf_event_list_print(&flags.sources, &flags.filter) ? GF_EXIT_OK : GF_EXIT_FAILED;
        gf_frame_name_end();
    }
    gf_sources_free(&flags.sources);
    return code;
}
