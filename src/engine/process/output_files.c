/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/duties.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/path.h"
#include "engine/report/sections.h"
#include "os/files.h"
#include "os/permit.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/*
 * Waits for the writing of files on short-lived threads. A file system may stall, and the library's
 * thread must continue to watch the memory meanwhile.
 */

struct gf_write_job {
    void (*write)(void); /* may wait, print and free; runs once at a time */
    _Atomic bool busy;
    /* While the job is busy, only the job uses these members. */
    const char *variable, *lost; /* for messages: the option's name, and what a failure loses */
    const char *option;          /* the path as in the variable */
    char path[PATH_MAX];
    char *text;
    size_t length;
    bool refused; /* the last write failed, and a warning was printed */
};

/* Whether the last write has not ended. */
static bool gf_write_job_busy(const struct gf_write_job *job)
{
    return gf_load_acquire(&job->busy);
}

static void *run_job(void *closure)
{
    struct gf_write_job *job = closure;

    job->write();
    gf_store_release(&job->busy, false);
    return NULL;
}

static void *run_named_job(void *closure)
{
    prctl(PR_SET_NAME, "gpufeed-write");
    return run_job(closure);
}

static void warn_of_failure(struct gf_write_job *job, int error)
{
    if (error && !job->refused)
        gf_warn("%s: cannot write %s: %s; the %s lost", job->variable, job->option,
                gf_output_reason(error), job->lost);
    job->refused = error != 0;
}

/* Writes the text, and frees it; NULL removes the file. Returns 0 or -errno. */
static int replace_file(struct gf_write_job *job, enum gf_output_flags flags,
                        struct gf_replaced *ret)
{
    const int error = gf_replace_file(job->path, job->text, job->length, flags, ret);

    free(job->text);
    return error;
}

/*
 * Starts a write. The job must not be busy. If no thread can be started, or the process is sealed
 * (os/permit.h), the calling thread writes.
 */
static void gf_write_job_start(struct gf_write_job *job, const struct gf_preload *preload)
{
    gf_store_relaxed(&job->busy, true);
    if (gf_permit_sealed() || preload->start_thread(run_named_job, job))
        run_job(job);
}

#define WAIT_MS 2000
#define LAST_WAIT_MS 10000 /* for the last report */

/* Waits until the job is not busy. Returns false if it is still busy. */
static bool gf_write_job_await(const struct gf_write_job *job, unsigned most_ms)
{
    for (unsigned ms = 0; ms < most_ms && gf_write_job_busy(job); ms++)
        gf_sleep_ns(1000000);
    return !gf_write_job_busy(job);
}

#define SECOND UINT64_C(1000000000)
/*
 * The smallest age at which the file is replaced: slightly less than 5 s and 60 s. The library's
 * thread checks every 5 s, and at this time the file may be slightly younger than 5 s.
 */
#define LOCAL_NS (9 * SECOND / 2)
#define NETWORK_NS (59 * SECOND)
/* The clock of a file server may be this much ahead of this host's clock. */
#define CLOCKS_MS 2000

static void write_text(void);

static struct {
    _Atomic uint64_t due_ns; /* when to replace the file next; UINT64_MAX: only at samples */
    uint64_t activity;       /* result of activity_of() when the file was written */
    struct gf_write_job job;
    /* While the job is busy, only the job uses the members below. */
    uint64_t started_ms;     /* wall clock: when this process started to use the GPU */
    struct gf_replaced last; /* by the last write */
    bool may_be_shared;      /* false if a warning was printed, or is printed in another place */
} file = {.due_ns = UINT64_MAX,
          .may_be_shared = true,
          .job = {.write = write_text, .variable = "GPUFEED_REPORT", .lost = "report is"}};

/*
 * Returns a number that increases with each event of the report, hooked call, stall and sample of
 * GPU time.
 */
static uint64_t activity_of(const struct gf_report *report)
{
    struct gf_stall_count stalls[GF_CAUSE_COUNT];
    struct gf_hook_counts counts;
    uint64_t sum = report->event_count;

    for (size_t i = 0; report->preload->hook_counts(i, &counts); i++)
        sum += counts.calls;
    report->preload->stall_counts(stalls);
    sum += gf_stall_sum(stalls).calls;
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        sum += report->gpu_time.device[i].samples;
    return sum;
}

static void plan_next(enum gf_file_place place)
{
    const uint64_t now = gf_now_ns();

    file.due_ns = place == gf_file_place_stream    ? UINT64_MAX
                  : place == gf_file_place_network ? now + NETWORK_NS
                                                   : now + LOCAL_NS;
}

/*
 * Whether another process has written the file that was replaced now. A file of an earlier run is
 * older than this process.
 */
static bool is_of_other(const struct gf_replaced *now)
{
    const struct stat *found = &now->before, *own = &file.last.after;
    const uint64_t written_ms =
        (uint64_t)found->st_mtim.tv_sec * 1000 + (uint64_t)found->st_mtim.tv_nsec / 1000000;

    if (!found->st_ino)
        return false;
    if (!own->st_ino)
        return written_ms > file.started_ms + (now->place == gf_file_place_network ? CLOCKS_MS : 0);
    return found->st_dev != own->st_dev || found->st_ino != own->st_ino ||
           found->st_mtim.tv_sec != own->st_mtim.tv_sec ||
           found->st_mtim.tv_nsec != own->st_mtim.tv_nsec;
}

static void warn_of_other(const struct gf_replaced *now)
{
    if (!file.may_be_shared || !is_of_other(now))
        return;
    file.may_be_shared = false;
    gf_warn("GPUFEED_REPORT: another process writes %s, too, so only one report remains. "
            "Put %%p, the process id, into the path.",
            file.job.option);
}

static void write_text(void)
{
    const bool is_sealed = gf_permit_sealed();
    struct gf_replaced now = {.place = gf_file_place_local};
    const int error = replace_file(&file.job, gf_output_private, is_sealed ? NULL : &now);

    if (!is_sealed) {
        warn_of_other(&now);
        file.last = error ? file.last : now;
        plan_next(now.place);
    }
    warn_of_failure(&file.job, error);
}

static int expand(const char *option, const struct gf_report *report, char ret[PATH_MAX])
{
    return gf_path_expand(option, report->pid, report->facts->rank.rank, ret, PATH_MAX);
}

/*
 * Stores the text and the path in `file`. Returns 0; -EAGAIN if the text does not fit; or another
 * -errno if the path is not valid.
 */
static int format_text(const struct gf_report *report, char *text, size_t size)
{
    const size_t length = gf_report_json(report, text, size);

    if (length >= size - 1)
        return -EAGAIN;
    text[length] = '\n';
    file.job.text = text;
    file.job.length = length + 1;
    file.job.option = report->preload->options->report;
    /* gf_output_check warns of ranks. */
    file.may_be_shared = file.may_be_shared && report->facts->rank.local_size <= 1;
    file.started_ms = report->written_ms - report->ran_ms;
    return expand(file.job.option, report, file.job.path);
}

/* Returns false if there is nothing to write. The job must not be busy. */
static bool prepare_text(const struct gf_report *report)
{
    /*
     * Counters increase between this call and the next one, so the buffer has space for more
     * digits.
     */
    const size_t size = gf_report_json(report, NULL, 0) + 4096;
    char *text = malloc(size);
    const int error = text ? format_text(report, text, size) : -EAGAIN;

    if (!error)
        return true;
    free(text);
    if (error != -EAGAIN)
        warn_of_failure(&file.job, error);
    return false;
}

void gf_report_file_write(const struct gf_report *report)
{
    if (gf_write_job_busy(&file.job))
        return;
    file.activity = activity_of(report);
    if (prepare_text(report))
        gf_write_job_start(&file.job, report->preload);
}

void gf_report_file_write_last(const struct gf_report *report)
{
    bool written = gf_write_job_await(&file.job, WAIT_MS);

    if (written && prepare_text(report)) {
        gf_write_job_start(&file.job, report->preload);
        written = gf_write_job_await(&file.job, LAST_WAIT_MS);
    }
    if (!written)
        gf_warn("GPUFEED_REPORT: %s: the file system did not respond; the last report is lost",
                report->preload->options->report);
}

bool gf_report_file_is_due(uint64_t now)
{
    return now >= gf_load_relaxed(&file.due_ns) && !gf_write_job_busy(&file.job);
}

bool gf_report_file_is_news(const struct gf_report *report)
{
    return activity_of(report) != file.activity;
}

static void write_metrics(void);

static struct {
    struct gf_write_job job;
    bool written; /* while the job is busy, only the job uses it */
} metrics_file = {
    .job = {.write = write_metrics, .variable = "GPUFEED_METRICS", .lost = "metrics are"}};

static void write_metrics(void)
{
    const bool removes = !metrics_file.job.text;
    const int error = replace_file(&metrics_file.job, gf_output_shared, NULL);

    metrics_file.written = metrics_file.written || !error;
    if (!removes)
        warn_of_failure(&metrics_file.job, error);
}

void gf_metrics_file_write(const struct gf_report *report)
{
    struct gf_write_job *const job = &metrics_file.job;

    if (gf_write_job_busy(job))
        return;
    job->option = report->preload->options->metrics;
    job->text = malloc(GF_REPORT_METRICS_BYTES);
    job->length = job->text ? gf_report_metrics(report, job->text, GF_REPORT_METRICS_BYTES) : 0;
    const int error = job->length ? expand(job->option, report, job->path) : -ENOMEM;
    if (!error) {
        gf_write_job_start(job, report->preload);
        return;
    }
    free(job->text);
    warn_of_failure(job, error);
}

void gf_metrics_file_remove(const struct gf_report *report)
{
    struct gf_write_job *const job = &metrics_file.job;

    if (!*report->preload->options->metrics || !gf_write_job_await(job, WAIT_MS) ||
        !metrics_file.written)
        return;
    job->text = NULL;
    job->length = 0;
    gf_write_job_start(job, report->preload);
    gf_write_job_await(job, WAIT_MS);
}
