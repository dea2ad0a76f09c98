/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/duties.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/gputime/sampler.h"
#include "engine/process/process_state.h"
#include "engine/report/sections.h"
#include "engine/report/summary.h"
#include "engine/transfer/stats.h"
#include "host/gpu.h"
#include "host/tasks.h"
#include "os/cgroup.h"
#include "os/launch.h"
#include "os/own_table.h"
#include "os/procfs.h"

#define ROWS 256
#define THREADS_MAX 16 /* largest number of threads in one line of the log */
/* Smallest share of the interval, in thousandths, that is logged as a delay. */
#define MUCH_PER_MILLE 50
#define MAJOR_FAULTS_MUCH 100 /* smallest number of major faults that is logged */
/*
 * Shorter intervals are not logged. The library's thread also wakes for other work, so an interval
 * may be short, and a twentieth of a short interval is not meaningful.
 */
#define SHORTEST_NS UINT64_C(900000000)
/*
 * An interval of activity lasts at least the age of the process divided by this number, so that the
 * log of a long job has few such lines.
 */
#define PARTS 2000
/* An eighth of the log's limit, so that lines of activity leave most of the log to stalls. */
#define ACTIVITY_BYTES ((size_t)8 << 20)

struct row {
    pid_t tid; /* thread id; 0 if the row is free */
    struct gf_task_account account;
};

static struct {
    struct row row[2][ROWS]; /* of the last reading and of this one, in turn */
    unsigned turn;
    uint64_t at_ns, throttled_ns;
    uint64_t fault_ns; /* estimated duration of the first touch of a page */
} past;

/* State of the activity lines. Only the thread that has set `busy` uses the other members. */
static struct {
    _Atomic bool busy;
    uint64_t at_ns; /* end of the last interval; 0 if no activity is logged */
    size_t bytes;
} activity;

struct interval {
    struct gf_json json;
    uint64_t length_ns, throttled_ns;
    unsigned logged;
};

/*
 * Estimates the duration of a first touch on this machine: the mean over 64 pages that the library
 * maps for this.
 */
static uint64_t measure_fault(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 64 * page;
    char *pages = gf_scratch_take(size);

    if (!pages)
        return 0;
    madvise(pages, size, MADV_NOHUGEPAGE);
    const uint64_t start_ns = gf_now_ns();
    for (size_t at = 0; at < size; at += page)
        *(volatile char *)(pages + at) = 1;
    const uint64_t duration_ns = gf_now_ns() - start_ns;
    gf_scratch_give(pages, size);
    return duration_ns / 64;
}

/* Returns the thread's row, or a free row for it. NULL if the table is full. */
static struct row *thread_row_of(struct row rows[ROWS], pid_t tid)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &rows[((unsigned)tid + i) % ROWS];
        if (row->tid == tid || !row->tid)
            return row;
    }
    return NULL;
}

static bool is_much(uint64_t ns, uint64_t interval_ns)
{
    return ns * 1000 >= interval_ns * MUCH_PER_MILLE;
}

static void put_interval_thread(struct interval *interval, pid_t tid,
                                const struct gf_task_account *now,
                                const struct gf_task_account *before)
{
    struct gf_json *json = &interval->json;
    const uint64_t delay = now->delay_ns - before->delay_ns, run = now->run_ns - before->run_ns;
    const uint64_t minor = now->minor - before->minor, major = now->major - before->major;
    const uint64_t faults = gf_min(minor * past.fault_ns, run);

    if ((!is_much(delay, interval->length_ns) && !is_much(faults, interval->length_ns) &&
         major < MAJOR_FAULTS_MUCH) ||
        interval->logged++ >= THREADS_MAX)
        return;
    gf_json_object(json, NULL);
    gf_json_int(json, "tid", tid);
    gf_json_text(json, "thread", now->name);
    gf_json_size(json, "run_ms", run / 1000000);
    gf_json_size(json, "delay_ms", delay / 1000000);
    gf_json_size(json, "throttled_ms", gf_min(delay, interval->throttled_ns) / 1000000);
    gf_json_size(json, "minor_faults", minor);
    gf_json_size(json, "fault_ms", faults / 1000000);
    gf_json_size(json, "major_faults", major);
}

static void visit_thread(void *closure, int task, pid_t tid)
{
    struct interval *interval = closure;
    const struct row *before = thread_row_of(past.row[past.turn ^ 1], tid);
    struct row *now = thread_row_of(past.row[past.turn], tid);

    if (!now || gf_tasks_account(task, tid, &now->account))
        return;
    now->tid = tid;
    /* If a time has decreased, the kernel has reused the thread's id for another thread. */
    if (interval->length_ns && before && before->account.run_ns &&
        now->account.run_ns >= before->account.run_ns)
        put_interval_thread(interval, tid, &now->account, &before->account);
}

static void log_threads(void)
{
    char fields[4096];
    const uint64_t now = gf_now_ns();
    struct interval interval = {.json = {.buf = fields, .size = sizeof(fields)}};
    struct gf_json *json = &interval.json;

    if (!gf_process.preload->log_wanted() || (past.at_ns && now - past.at_ns < SHORTEST_NS))
        return;
    if (!past.fault_ns)
        past.fault_ns = measure_fault();
    interval.length_ns = past.at_ns ? now - past.at_ns : 0;
    const uint64_t throttled = gf_cgroup_throttled_ns("");
    interval.throttled_ns = throttled - gf_min(past.throttled_ns, throttled);
    gf_json_begin(json, NULL, '{');
    gf_json_size(json, "interval_ms", interval.length_ns / 1000000);
    gf_json_begin(json, "threads", '[');
    past.turn ^= 1;
    memset(past.row[past.turn], 0, sizeof(past.row[past.turn]));
    gf_tasks_each(0, visit_thread, &interval);
    gf_json_end(json, ']');
    gf_json_size(json, "throttled_ms", interval.throttled_ns / 1000000);
    gf_json_end(json, '}');
    const bool much =
        interval.logged || (past.at_ns && is_much(interval.throttled_ns, interval.length_ns));
    past.at_ns = now;
    past.throttled_ns = throttled;
    if (much && gf_json_close(json))
        gf_process.preload->log("threads", fields);
}

/* Logs an event with the fields that were put. */
static void end_activity(struct gf_json *json, const char *event)
{
    gf_json_end(json, '}');
    if (!gf_json_close(json))
        return;
    activity.bytes += json->at;
    gf_process.preload->log(event, json->buf);
}

static void log_activity(uint64_t length_ns)
{
    char fields[4096];
    struct gf_json json = {.buf = fields, .size = sizeof(fields)};

    gf_json_begin(&json, NULL, '{');
    gf_json_size(&json, "interval_ms", length_ns / 1000000);
    if (gf_report_activity_put(&json))
        end_activity(&json, "activity");
}

/* The sums of each line at the end of the last interval. */
static struct gf_copy_wait_sum past_waits[GF_COPY_WAIT_LINES];

static void log_copy_wait(const struct gf_copy_wait_line *line, uint64_t interval_ns)
{
    char fields[1024], text[512];
    struct gf_json json = {.buf = fields, .size = sizeof(fields)};

    gf_summary_copy_wait(line, interval_ns, &(struct gf_textbuf){text, sizeof(text), 0});
    gf_json_begin(&json, NULL, '{');
    gf_json_text(&json, "text", text);
    gf_json_text(&json, "direction", line->to_device ? "to_device" : "from_device");
    gf_report_line_put(&json, &line->at);
    gf_json_size(&json, "copies", line->sum.copies);
    gf_json_size(&json, "bytes", line->sum.bytes);
    gf_json_size(&json, "us", line->sum.ns / 1000);
    gf_json_size(&json, "interval_ms", interval_ns / 1000000);
    end_activity(&json, "copy_wait");
}

/* Logs each line whose waits take at least 1 % of the interval. */
static void log_copy_waits(uint64_t interval_ns)
{
    struct gf_copy_waits waits;

    gf_process.preload->copy_waits(&waits);
    for (unsigned i = 0; i < waits.lines; i++) {
        struct gf_copy_wait_line line = waits.line[i];
        line.sum.copies -= past_waits[i].copies;
        line.sum.bytes -= past_waits[i].bytes;
        line.sum.ns -= past_waits[i].ns;
        past_waits[i] = waits.line[i].sum;
        if (line.sum.ns && line.sum.ns * GF_COPY_WAIT_SHARE >= interval_ns)
            log_copy_wait(&line, interval_ns);
    }
}

/*
 * Logs the activity since the last line if a line is due or `last` is true. If the library's thread
 * and an exiting thread call this function at the same time, one of the calls does nothing.
 */
static void log_activity_when_due(bool last)
{
    if (!activity.at_ns || gf_exchange_acquire(&activity.busy, true))
        return;
    const uint64_t now = gf_now_ns(), length_ns = now - activity.at_ns,
                   least_ns = gf_max(SHORTEST_NS, (now - gf_process.started_ns) / PARTS);
    if ((last || length_ns >= least_ns) && activity.bytes < ACTIVITY_BYTES) {
        activity.at_ns = now;
        log_activity(length_ns);
        log_copy_waits(length_ns);
    }
    gf_store_release(&activity.busy, false);
}

void gf_intervals_start(void)
{
    if (!gf_process.preload->log_wanted())
        return;
    activity.at_ns = gf_now_ns();
    gf_longest_copies_start();
}

static void log_slow_steps(bool last)
{
    struct gf_step_times times;

    if (!activity.at_ns)
        return;
    gf_process.preload->step_times(&times);
    gf_report_steps_log(&times, last, gf_process.preload->log);
}

void gf_intervals_log(void)
{
    log_threads();
    log_activity_when_due(false);
    log_slow_steps(false);
}

void gf_intervals_end(void)
{
    log_activity_when_due(true);
    log_slow_steps(true);
}

/*
 * Returns a reason not to sample, because queries would disturb the program or a tool. Returns NULL
 * if there is no such reason. A tool in the driver would take the queries for calls of the program.
 */
static const char *find_reason(const struct gf_preload *preload)
{
    const char *injection = gf_launch_variable(environ, "CUDA_INJECTION64_PATH");

    if (preload->options->origin.gpu_time == gf_origin_environment)
        return NULL; /* the user requested sampling */
    if (preload->driver_shim)
        return "a profiler is preloaded in the driver's place";
    if (gf_process_under_sanitizer())
        return "the process runs under compute-sanitizer";
    if ((injection && *injection) || gf_tasks_find_map(0, "libToolsInjection", NULL) == 0)
        return "a profiler is loaded into the driver";
    if (access("/dev/dxg", F_OK) == 0)
        return "in WSL2 a query makes the driver submit its queue";
    return NULL;
}

/* Called before a standstill is told. Reads a file, once per standstill. */
static void read_tracer(void *closure)
{
    char text[1024];
    const char *tracer = gf_procfs_read(text, sizeof(text), "", "proc/self/status") > 0
                             ? gf_procfs_field(text, "TracerPid")
                             : NULL;

    *(bool *)closure = tracer && gf_procfs_number(tracer);
}

static bool is_traced(void)
{
    bool traced = false;

    gf_own_table_run(read_tracer, &traced);
    return traced;
}

/* Called on the sampler's thread. */
static void tell_standstill(const struct gf_standstill *standstill)
{
    const unsigned s = (unsigned)(standstill->ns / 1000000000);
    char step[32] = "", line[160] = "";

    if (standstill->step)
        gf_fmt(step, sizeof(step), " (step %lu)", standstill->step);
    if (!standstill->ongoing) {
        gf_fmt(line, sizeof(line), "a step has ended after %u s%s", s, step);
        gf_events_record(gf_report_resumed, line);
        return;
    }
    gf_summary_line(&standstill->at, &(struct gf_textbuf){line, sizeof(line), 0});
    gf_events_announce(gf_report_standstill, "no step has ended for %u s%s: %s%s", s, step,
                       standstill->cause == gf_host_gpu_wait
                           ? "waiting for the GPU"
                           : gf_summary_gpu_time_cause(standstill->cause),
                       line);
}

void gf_gpu_time_prepare(void)
{
    const struct gf_preload *preload = gf_process.preload;
    const char *reason = preload->options->gpu_time ? find_reason(preload) : NULL;

    if (reason)
        gf_info("the GPU's time is not sampled: %s", reason);
    gf_standstill_open(preload, is_traced, tell_standstill);
    gf_sampler_prepare(preload, gf_gpu_clock_loss, reason);
}

void gf_gpu_time_start(void)
{
    const struct gf_preload *preload = gf_process.preload;

    if (!gf_load_relaxed(&preload->submissions->contexts[0].context) || gf_process_dead())
        return;
    gf_gpu_clock_find(preload->cuda);
    gf_sampler_start();
}
