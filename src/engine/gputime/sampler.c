/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/sampler.h"

#include "base/clock.h"
#include "engine/gputime/host_causes.h"
#include "engine/gputime/questions.h"
#include "os/own_table.h"
#include "os/pressure.h"

#include <sys/prctl.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
/* After this many samples, the sampler computes which share of a CPU it used. */
#define REVIEW 64u
/*
 * Shares of a CPU, in thousandths. From SHARE_MOST on, the thread samples less often; below
 * SHARE_LEAST, more often.
 */
#define SHARE_MOST 8u
#define SHARE_LEAST 4u
#define INTERVAL_MOST (SECOND / 5)
/*
 * If GPUFEED_GPU_TIME is above this rate, the thread's CPU time is not limited, because the user
 * asked for so many samples.
 */
#define HZ_UNLIMITED 1000u
/* A sample is late if it comes later than four times the planned interval plus this time. */
#define LATE_NS (SECOND / 20)
/* A sample is delayed, perhaps by the CPU quota, from twice that interval plus this time on. */
#define DELAYED_NS (SECOND / 100)
/*
 * If the mean time between submissions is less than this, the rate of submissions limits the GPU.
 */
#define LAUNCH_BOUND_NS UINT64_C(100000)
/* At most this many submissions for each wait: the waits keep the GPU idle. */
#define WAITS_OFTEN 8u
#define STOP_TRIES 200u /* number of waits of 100 us each */

struct device {
    struct gf_gpu_shares shares;
    struct gf_gaps gaps;
    struct gf_host host;
    _Atomic bool used;
};

static struct sampler {
    const struct gf_preload *preload;
    gf_step_clock_fn *clock_loss;
    const char *reason;
    uint64_t looked_ns; /* when end_lost_calls was last called */
    uint64_t random;
    uint64_t nominal_ns;                 /* 1 / hz */
    _Atomic uint64_t interval_ns;        /* the present mean interval between samples */
    uint64_t planned_ns;                 /* duration of the present sleep */
    uint64_t before_ns, begun, unlisted; /* time and counts of the previous sample */
    uint64_t waits, waited;              /* waits until the previous sample, and since */
    uint64_t moved_ns;                   /* time of the last sample that saw a submission */
    bool settled;
    uint64_t reviewed_ns, reviewed_cpu_ns;
    pid_t tid;             /* the thread that samples */
    uint64_t own_delay_ns; /* its run-queue delay at the last reading */
    uint64_t delay_ns;     /* the same with that of its readings, before the last reading */
    _Atomic uint64_t cpu_ns, questions, refused, longest_ns;
    _Atomic bool stopped;
    bool started;
    struct device device[GF_SUBMIT_DEVICES];
} sampler;

/*
 * Sleeps for a random time between half and one and a half intervals, so that no loop of the
 * program runs in step with the samples. Returns false if the kernel refuses to let the thread
 * sleep, as a seccomp filter may.
 */
static bool sleep_some(void)
{
    const uint64_t interval = gf_load_relaxed(&sampler.interval_ns);

    sampler.planned_ns = interval / 2 + gf_random(&sampler.random) % interval;
    const struct timespec at = gf_timespec(sampler.planned_ns);
    const int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &at, NULL);
    return !error || error == EINTR;
}

static void read_delay(void *closure)
{
    uint64_t run;
    *(uint64_t *)closure = gf_run_delay_read(sampler.tid, &run);
}

/*
 * Returns the sum of the run-queue delays of the sampling thread and of the threads that made
 * readings, for which it waits, since the last call. A delay during this reading counts for the
 * next interval.
 */
static uint64_t take_delay(void)
{
    const uint64_t start = gf_now_ns();
    uint64_t cost_ns;

    gf_measured_run(read_delay, &sampler.own_delay_ns, &cost_ns);
    const uint64_t now = sampler.own_delay_ns + gf_measured_run_delay();
    const uint64_t delay = now - gf_min(sampler.delay_ns, now);
    sampler.delay_ns = now - gf_min(delay, gf_now_ns() - start);
    return delay;
}

static void review_cost(uint64_t now)
{
    const uint64_t cpu = gf_thread_cpu_ns() + gf_measured_run_total();
    const uint64_t interval = gf_load_relaxed(&sampler.interval_ns);

    gf_store_relaxed(&sampler.cpu_ns, cpu);
    take_delay();
    const uint64_t passed = now - sampler.reviewed_ns,
                   share = (cpu - sampler.reviewed_cpu_ns) * 1000 / gf_max(passed, UINT64_C(1));
    sampler.reviewed_ns = now;
    sampler.reviewed_cpu_ns = cpu;
    if (sampler.preload->options->gpu_time > HZ_UNLIMITED)
        return;
    if (share >= SHARE_MOST)
        gf_store_relaxed(&sampler.interval_ns, gf_min(interval + interval / 2, INTERVAL_MOST));
    else if (share < SHARE_LEAST)
        gf_store_relaxed(&sampler.interval_ns, gf_max(interval - interval / 4, sampler.nominal_ns));
}

static enum gf_gpu_state state_of(const struct gf_answers *answers, unsigned number)
{
    const struct gf_answer *answer = &answers->device[number];

    if (answer->work & gf_work_kernel)
        return gf_gpu_queued;
    if (answer->failed || answers->unlisted != sampler.unlisted)
        return gf_gpu_unknown;
    if (answer->work & gf_work_comm)
        return gf_gpu_communicating;
    return answer->work || answer->copies ? gf_gpu_copying : gf_gpu_empty;
}

/*
 * Returns why a sample is late: the CPU quota throttled the process, other processes had the CPUs,
 * or the process was paused.
 */
static enum gf_host_cause cause_of_delay(uint64_t interval)
{
    if (gf_pressure_throttled_since())
        return gf_host_throttled;
    return 2 * take_delay() > interval ? gf_host_preempted : gf_host_paused;
}

/* Returns the cause if a thread is inside a timed driver call; gf_host_other if no thread is. */
static enum gf_host_cause cause_of_call(void)
{
    for (unsigned i = 0; i < GF_SUBMITTERS; i++) {
        const unsigned doing = gf_load_relaxed(&sampler.preload->submissions->submitters[i].doing);
        if (doing == 1 + gf_timed_driver_wait)
            return gf_host_gpu_wait;
        if (doing >= 1 + gf_timed_driver_alloc && doing <= 1 + gf_timed_driver_unpin)
            return gf_host_driver;
    }
    return gf_host_other;
}

/* Whether the thread that submits most of the work has waited for the GPU since its last call. */
static bool follows_wait(void)
{
    const struct gf_submitter *most = &sampler.preload->submissions->submitters[0];

    for (unsigned i = 1; i < GF_SUBMITTERS_OWN; i++)
        if (gf_load_relaxed(&sampler.preload->submissions->submitters[i].begun) >
            gf_load_relaxed(&most->begun))
            most = &sampler.preload->submissions->submitters[i];
    return gf_load_relaxed(&most->waited) == gf_load_relaxed(&most->begun);
}

/* Counts how often threads have waited for the GPU since the last sample. */
static void count_waits(void)
{
    uint64_t waits = 0;

    for (unsigned i = 0; i < GF_SUBMITTERS_OWN; i++)
        waits += gf_load_relaxed(&sampler.preload->submissions->submitters[i].waits);
    sampler.waited = waits - sampler.waits;
    sampler.waits = waits;
}

#define SOON_NS (5 * LAUNCH_BOUND_NS)

/*
 * Whether a thread that submitted work in quick succession went on after `now`. If it computes
 * instead, the gap stays open.
 */
static bool ends_soon(const struct gf_submit_gap *gap, uint64_t now)
{
    while (!gf_load_acquire(&gap->ended_ns) && gf_now_ns() < now + SOON_NS)
        gf_sleep_ns(LAUNCH_BOUND_NS);
    const uint64_t ended = gf_load_acquire(&gap->ended_ns);
    return ended && ended < now + SOON_NS;
}

/*
 * moved: the number of calls that submitted work since the last sample. gap: NULL if the GPU is
 * busy.
 */
static enum gf_host_cause cause_of(unsigned number, const struct gf_submit_gap *gap,
                                   uint64_t interval, uint64_t moved, uint64_t now)
{
    struct device *device = &sampler.device[number];
    const pid_t ender = gf_load_relaxed(&device->gaps.last_ender);
    const struct gf_submit_table *table = sampler.preload->submissions;
    const pid_t starter = table->starter ? table->starter : getpid();
    /* before ends_soon() waits, in which the thread may leave the call, or submit the next work */
    const enum gf_host_cause call = cause_of_call();
    const bool after_wait = moved && (follows_wait() || WAITS_OFTEN * sampler.waited >= moved),
               was_quick = moved && interval / moved < LAUNCH_BOUND_NS,
               is_quick = was_quick && ends_soon(gap, now);
    const struct gf_host_sample sample = {
        .now = now,
        .tid = ender ? ender : starter,
        .starter = starter,
        .starter_python = table->starter_python,
        .python_tid = gf_load_relaxed(&device->gaps.last_python_tid),
        .python = gf_load_relaxed(&device->gaps.last_python),
        .call = call,
        .between_ns = !moved                   ? now - sampler.moved_ns
                      : was_quick && !is_quick ? interval
                                               : interval / moved,
        .launch_bound = is_quick,
        .after_wait = after_wait,
        .wait_is_near = was_quick && 2 * sampler.waited >= moved,
        .gap = gap,
    };

    return gf_host_find_cause(&device->host, &sample);
}

/*
 * late: why the sample is late; gf_host_other if it is not. If the GPU was certainly empty and only
 * this thread had no CPU, the thread that submits work decides by its own delay.
 */
static void add_sample(unsigned number, const struct gf_answers *answers, uint64_t now,
                       enum gf_host_cause late)
{
    struct device *device = &sampler.device[number];
    struct gf_gpu_sample sample = {.at_ns = now};
    const struct gf_gpu_sample *last = &device->shares.last;
    const uint64_t interval = now - sampler.before_ns, moved = answers->begun - sampler.begun;

    sample.quiet = sampler.settled && answers->settled && !moved;
    if (answers->asked)
        sample.state = state_of(answers, number);
    else
        sample.state = sample.quiet && last->state == gf_gpu_empty ? gf_gpu_empty : gf_gpu_unknown;
    if (late != gf_host_preempted || !sample.quiet || sample.state != gf_gpu_empty ||
        last->state != gf_gpu_empty) {
        sample.late = late != gf_host_other;
        sample.cause = late;
    }
    gf_gaps_see(&device->gaps, last->at_ns, now, sample.state != gf_gpu_unknown,
                sample.state == gf_gpu_empty);
    if (sample.state == gf_gpu_empty) {
        if (!sample.late) {
            sample.cause =
                cause_of(number, &sampler.preload->submissions->gaps[number], interval, moved, now);
            sample.undecided = sample.cause == gf_host_gpu_wait && cause_of_call() == gf_host_other;
        }
        gf_gaps_cause(&device->gaps, sample.cause);
        if (sampler.before_ns)
            gf_cause_lines_add(&device->host.lines, sample.cause, interval);
    }
    if (sample.state == gf_gpu_queued && cause_of_call() == gf_host_gpu_wait)
        gf_host_see_wait(&device->host, gf_load_relaxed(&device->gaps.last_python),
                         sampler.preload->submissions->starter_python, now);
    if (gf_gpu_shares_add(&device->shares, &sample))
        gf_cause_lines_age(&device->host.lines);
}

/* Whether NCCL has submitted work that was not seen to be complete. */
static bool communicates(int device)
{
    unsigned work = gf_load_relaxed(&sampler.preload->submissions->legacy_work);

    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        work |= gf_load_relaxed(&sampler.preload->submissions->submitters[i].own_work);
    if (work & gf_work_comm)
        return true;
    for (unsigned i = 0; i < GF_STREAM_SLOTS; i++) {
        const struct gf_stream_slot *slot = &sampler.preload->submissions->slots[i];
        if (gf_load_relaxed(&slot->stream) > GF_SUBMIT_FILLING &&
            (gf_load_relaxed(&slot->work) & gf_work_comm) &&
            gf_load_relaxed(&slot->device) == device)
            return true;
    }
    return false;
}

/*
 * Whether the device makes progress, or may. A collective that waits for a peer keeps the GPU busy
 * without progress, also for the work that waits for the collective.
 */
static bool device_progresses(unsigned number)
{
    const enum gf_gpu_state state = sampler.device[number].shares.last.state;
    return state != gf_gpu_empty && state != gf_gpu_communicating &&
           !(state == gf_gpu_queued && communicates((int)number));
}

static void see_standstill(const struct gf_answers *answers, uint64_t interval, uint64_t now,
                           enum gf_host_cause late)
{
    static const struct gf_python_line no_line;
    const struct gf_python_line *at = &no_line;
    enum gf_host_cause cause = gf_host_other;
    bool progress = answers->begun != sampler.begun || late == gf_host_paused;

    for (unsigned i = 0; i < GF_SUBMIT_DEVICES && !progress; i++) {
        struct device *device = &sampler.device[i];
        if (!gf_load_relaxed(&device->used))
            continue;
        progress = gf_standstill_is_near(now) ? device_progresses(i)
                                              : device->shares.last.state == gf_gpu_unknown;
        cause = device->shares.last.state == gf_gpu_empty ? device->shares.last.cause
                : gf_standstill_is_near(now)              ? cause_of(i, NULL, interval, 0, now)
                                                          : gf_host_other;
        at = &device->host.at;
    }
    gf_standstill_see(now, progress, cause, at);
}

static void count_questions(const struct gf_answers *answers, uint64_t ns)
{
    gf_add_relaxed(&sampler.questions, answers->questions);
    gf_add_relaxed(&sampler.refused, answers->refused);
    if (answers->questions && ns > gf_load_relaxed(&sampler.longest_ns))
        gf_store_relaxed(&sampler.longest_ns, ns);
}

static void publish_facts(uint64_t now, bool is_delayed)
{
    struct gf_step_gpu gpus[GF_SUBMIT_DEVICES];
    unsigned count = 0;

    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        if (gf_load_relaxed(&sampler.device[i].used))
            gpus[count++] = (struct gf_step_gpu){i, &sampler.device[i].shares};
    gf_step_facts_publish(now, is_delayed, gpus, count, sampler.clock_loss,
                          sampler.preload->step_facts);
}

/*
 * A thread that ended inside a driver call would look for ever as if it were inside. Called after
 * each sample. Does nothing while no thread is inside a call.
 */
static void end_lost_calls(const struct gf_answers *answers, uint64_t now)
{
    bool inside = !answers->settled;

    for (unsigned i = 0; i < GF_SUBMITTERS && !inside; i++)
        inside = gf_load_relaxed(&sampler.preload->submissions->submitters[i].doing);
    if (!inside || now - sampler.looked_ns < SECOND / 2)
        return;
    sampler.looked_ns = now;
    sampler.preload->end_lost_calls();
}

static void take_sample(void)
{
    struct gf_answers answers;
    const uint64_t start = gf_now_ns();

    gf_questions_ask(sampler.preload->cuda, sampler.preload->submissions, &answers);
    const uint64_t now = gf_now_ns();
    count_questions(&answers, now - start);
    const uint64_t interval = sampler.before_ns ? now - sampler.before_ns : 0;
    count_waits();
    const enum gf_host_cause late =
        interval > 4 * sampler.planned_ns + LATE_NS ? cause_of_delay(interval) : gf_host_other;
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++) {
        if (answers.device[i].has_context)
            gf_store_relaxed(&sampler.device[i].used, true);
        if (gf_load_relaxed(&sampler.device[i].used))
            add_sample(i, &answers, now, late);
    }
    gf_graph_steps_see(sampler.preload->submissions, sampler.before_ns, now,
                       sampler.preload->step_graph);
    publish_facts(now, interval > 2 * sampler.planned_ns + DELAYED_NS);
    see_standstill(&answers, interval, now, late);
    if (answers.begun != sampler.begun)
        sampler.moved_ns = now;
    sampler.before_ns = now;
    sampler.begun = answers.begun;
    sampler.unlisted = answers.unlisted;
    sampler.settled = answers.settled;
    end_lost_calls(&answers, now);
}

static void *run_sampler(void *closure)
{
    const struct gf_preload *const preload = sampler.preload;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    prctl(PR_SET_NAME, "gpufeed-gputime");
    if (preload->heap->share_main)
        preload->heap->share_main(); /* the driver's queries allocate */
    preload->cuda->cuThreadExchangeStreamCaptureMode(&mode);
    sampler.tid = (pid_t)syscall(SYS_gettid);
    gf_python_line_open(preload->python);
    sampler.reviewed_ns = gf_now_ns();
    for (unsigned count = 1; !gf_load_seq_cst(&sampler.stopped); count++) {
        if (!sleep_some())
            gf_store_seq_cst(&sampler.stopped, true);
        if (gf_load_seq_cst(&sampler.stopped))
            break;
        take_sample();
        if (count % REVIEW == 0)
            review_cost(gf_now_ns());
    }
    return closure;
}

void gf_sampler_prepare(const struct gf_preload *preload, gf_step_clock_fn *clock_loss,
                        const char *reason)
{
    const unsigned hz = preload->options->gpu_time;

    sampler.preload = preload;
    sampler.clock_loss = clock_loss;
    sampler.reason = hz ? reason : "GPUFEED_GPU_TIME is 0";
    if (sampler.reason)
        return;
    if (!gf_questions_possible(preload->cuda)) {
        sampler.reason = "the driver lacks a function";
        return;
    }
    gf_pressure_counters_open(); /* opens files, so it is called here, within cuInit */
    sampler.nominal_ns = SECOND / hz;
    sampler.interval_ns = sampler.nominal_ns;
    sampler.random = gf_now_ns() | 1;
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        sampler.device[i].gaps.shared = &preload->submissions->gaps[i];
    atomic_fetch_or(&preload->submissions->on, gf_submit_sampled);
}

void gf_sampler_start(void)
{
    if (sampler.started || !sampler.nominal_ns || gf_load_relaxed(&sampler.stopped))
        return;
    sampler.started = true;
    if (gf_detached_start(run_sampler, NULL)) {
        sampler.reason = "no thread could be started";
        atomic_fetch_and(&sampler.preload->submissions->on, ~(unsigned)gf_submit_sampled);
    }
}

void gf_sampler_stop(void)
{
    gf_store_seq_cst(&sampler.stopped, true);
    if (!sampler.started)
        return;
    gf_store_seq_cst(&sampler.preload->submissions->closed, true);
    for (unsigned i = 0; i < STOP_TRIES && gf_load_seq_cst(&sampler.preload->submissions->asking);
         i++)
        gf_sleep_ns(100000);
}

static void read_device(struct device *device, struct gf_gpu_time_device *ret)
{
    ret->used = gf_load_relaxed(&device->used);
    gf_gpu_shares_start(&device->shares, &ret->start); /* before the sums, of which it is a part */
    for (unsigned i = 0; i < GF_GPU_STATE_COUNT; i++)
        ret->state_ns[i] = gf_load_relaxed(&device->shares.state_ns[i]);
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        ret->cause_ns[i] = gf_load_relaxed(&device->shares.cause_ns[i]);
    for (unsigned i = 0; i < GF_LATE_CAUSES; i++)
        ret->late_ns[i] = gf_load_relaxed(&device->shares.late_ns[i]);
    ret->exact_ns = gf_load_relaxed(&device->shares.exact_ns);
    ret->samples = gf_load_relaxed(&device->shares.samples);
    ret->gap_count = gf_load_relaxed(&device->gaps.count);
    gf_gaps_read(&device->gaps, ret->longest, &ret->open);
    gf_cause_lines_read(&device->host.lines, ret->line);
}

void gf_sampler_read(struct gf_gpu_time *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->on = sampler.started && !sampler.reason;
    ret->reason = sampler.reason;
    ret->interval_us = gf_load_relaxed(&sampler.interval_ns) / 1000;
    ret->cpu_ns = gf_load_relaxed(&sampler.cpu_ns);
    ret->questions = gf_load_relaxed(&sampler.questions);
    ret->refused = gf_load_relaxed(&sampler.refused);
    ret->longest_question_ns = gf_load_relaxed(&sampler.longest_ns);
    gf_cpu_use_read(&ret->without_cpu);
    gf_standstill_read(&ret->standstill);
    for (unsigned i = 0; ret->on && i < GF_SUBMIT_DEVICES; i++)
        read_device(&sampler.device[i], &ret->device[i]);
}

bool gf_sampler_read_path(unsigned device, unsigned number, struct gf_idle_path *ret)
{
    return gf_idle_path_read(&sampler.device[device].host.lines, number, ret);
}

void gf_sampler_read_states(uint64_t ret[GF_SUBMIT_DEVICES][GF_GPU_STATE_COUNT])
{
    const bool on = sampler.started && !sampler.reason;

    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        for (unsigned state = 0; state < GF_GPU_STATE_COUNT; state++)
            ret[i][state] = on ? gf_load_relaxed(&sampler.device[i].shares.state_ns[state]) : 0;
}
