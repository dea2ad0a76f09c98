/* SPDX-License-Identifier: Apache-2.0 */
#include "abi/trace_api.h"
#include "engine/gputime/step_causes.h"
#include "engine/report/summary.h"

#define CAUSES_SAID 3u
#define GPUS_SAID 3u
#define SAMPLES_LEAST 20u                  /* with fewer samples, shares would not be meaningful */
#define UNKNOWN_MUCH 50u                   /* a smaller unknown share is not explained */
#define COPYING_MUCH 50u                   /* a larger share of copies gets a remedy */
#define WITHOUT_CPU_NS UINT64_C(100000000) /* in less time, the use of CPUs is not measured well */
#define PERMILLE_LEAST 5u                  /* a cause below half a percent of the time is omitted */
#define LATER_LESS 50u /* the share after the start is said if it is less by this */
#define MUCH 100u /* a larger share is said even if the start, or less than others later, has it */
#define REMEDY_LEAST 50u                 /* a smaller share gets no remedy */
#define GAP_LEAST_NS UINT64_C(500000000) /* a shorter gap is not named */

static const struct {
    const char *words, *remedy;
} causes[] = {
#define GF_HOST(name, words, meaning, remedy) {words, remedy},
#include "abi/reasons.def"
};

const char *gf_summary_gpu_time_cause(enum gf_host_cause cause)
{
    return causes[cause].words;
}

static unsigned permille(uint64_t part, uint64_t whole)
{
    return whole ? (unsigned)((double)part * 1000 / (double)whole + 0.5) : 0;
}

static void say_share(struct gf_textbuf *out, const char *before, uint64_t part, uint64_t whole)
{
    const unsigned share = permille(part, whole);
    gf_say(out, "%s%u.%u %%", before, share / 10, share % 10);
}

static bool is_said(const struct gf_gpu_time_device *device)
{
    return device->used && device->samples >= SAMPLES_LEAST;
}

/*
 * Returns whether it wrote a line. A copy that runs alone began after the GPU had finished its
 * work, or delays further work.
 */
static bool say_copying(struct gf_textbuf *out, const struct gf_gpu_time_device *device)
{
    const uint64_t whole = gf_gpu_time_whole(device);

    if (permille(device->state_ns[gf_gpu_copying], whole) < COPYING_MUCH)
        return false;
    say_share(out, "\n  ", device->state_ns[gf_gpu_copying], whole);
    gf_say(out, " only copies ran (copy the next batch while the GPU works: pin_memory=True, "
                "non_blocking=True, fewer waits)");
    return true;
}

/*
 * Says what helps a submitting thread that had no CPU, and how many CPUs its process used meanwhile.
 * The process may use more CPUs than its main thread if only some threads are bound; then the
 * figures do not show what the submitting thread competed with.
 */
static void say_users(struct gf_textbuf *out, const struct gf_cpu_use *use)
{
    const uint64_t tenths = use->ns ? use->own_ns * 10 / use->ns : 0,
                   all = UINT64_C(10) * use->cpus;
    const bool known = use->ns >= WITHOUT_CPU_NS && tenths <= all + 1;

    gf_say(out, "%s",
           known && 4 * tenths >= 3 * all
               ? "run fewer threads in this process, or request more CPUs"
           : known && 2 * tenths <= all ? "run fewer workers and other jobs, or request more CPUs"
                                        : causes[gf_host_preempted].remedy);
    if (known)
        gf_say(out, "; this process used %lu.%lu of %u CPU%s meanwhile", tenths / 10, tenths % 10,
               use->cpus, use->cpus == 1 ? "" : "s");
}

static bool is_running(enum gf_host_cause cause)
{
    return cause == gf_host_computing || cause == gf_host_optimizer || cause == gf_host_loader;
}

/*
 * Returns the gap that was most of the cause's time, such as the start of the program, if little is
 * left without it, else NULL. What helps in each step is no remedy for it. A thread that computes
 * has no CPU at times, so both are one gap.
 */
static const struct gf_gpu_gap *single_gap(const struct gf_gpu_time_device *device,
                                           enum gf_host_cause cause)
{
    const uint64_t whole = gf_gpu_time_whole(device);

    for (unsigned i = 0; i < GF_GAPS_LONGEST; i++) {
        const struct gf_gpu_gap *gap = &device->longest[i];
        uint64_t ns = device->cause_ns[gap->cause];
        const bool computes = is_running(cause) && gap->cause == gf_host_preempted;
        if (computes || (cause == gf_host_preempted && gap->cause != cause))
            ns += device->cause_ns[cause];
        else if (gap->cause != cause)
            continue;
        if (2 * gap->ns > ns &&
            permille(ns - gf_min(gap->ns, ns), whole - gf_min(gap->ns, whole)) < REMEDY_LEAST)
            return gap;
    }
    return NULL;
}

/* The cause's time after the start of the run, and before its end, which no work for the GPU follows. */
static uint64_t later_ns(const struct gf_gpu_time_device *device, enum gf_host_cause cause)
{
    const uint64_t end_ns = device->open.cause == cause ? device->open.ns : 0,
                   others_ns = device->start.cause_ns[cause] + end_ns;

    return device->cause_ns[cause] - gf_min(others_ns, device->cause_ns[cause]);
}

/* Whether nearly all of the cause's time was in the start of the run, such as that of a first step. */
static bool was_at_start(const struct gf_gpu_time_device *device, enum gf_host_cause cause)
{
    const uint64_t ns = device->cause_ns[cause], start_ns = device->start.cause_ns[cause];

    return device->start.ns && 10 * (ns - gf_min(start_ns, ns)) < ns;
}

static bool was_mostly_at_start(const struct gf_gpu_time_device *device, enum gf_host_cause cause)
{
    return device->start.ns && 4 * device->start.cause_ns[cause] >= 3 * device->cause_ns[cause];
}

/*
 * After each wait for the GPU or for memory, the GPU stays empty until enough new work is launched.
 * Then the launches, and what the thread computes between them, are not what to mend.
 */
static bool is_secondary(const struct gf_gpu_time_device *device, enum gf_host_cause cause)
{
    return (cause == gf_host_launches || cause == gf_host_computing) &&
           later_ns(device, gf_host_gpu_wait) + later_ns(device, gf_host_driver) >
               later_ns(device, cause);
}

/* Whether the line that computed is in the function with the line of this cause. */
static bool computes_in_function_of(const struct gf_gpu_time_device *device,
                                    enum gf_host_cause cause)
{
    const struct gf_python_line *line = &device->line[gf_host_computing].at,
                                *other = &device->line[cause].at;
    return line->line && strcmp(line->function, other->function) == 0 &&
           strcmp(line->file, other->file) == 0;
}

/*
 * Whether the line is unknown that the remedy is about: that of a lock's holder, or in a program of
 * which lines are known, one at which the thread submits the work that is too short.
 */
static bool lacks_line(const struct gf_gpu_time_device *device, enum gf_host_cause cause)
{
    if (cause == gf_host_lock)
        return !device->line[cause].holder.line;
    return cause == gf_host_launches && !device->line[cause].at.line &&
           device->line[gf_host_computing].at.line;
}

/* Whether the line runs an optimizer on the CPU, whose first 20 ms count as computing. */
static bool is_begin_of_optimizer(const struct gf_gpu_time_device *device)
{
    return 4 * device->cause_ns[gf_host_optimizer] > device->cause_ns[gf_host_computing] &&
           computes_in_function_of(device, gf_host_optimizer) &&
           device->line[gf_host_computing].at.line == device->line[gf_host_optimizer].at.line;
}

/* Whether the line that computed does so between launches, and not for them. */
static bool is_own_work(const struct gf_gpu_time_device *device)
{
    const struct gf_cause_line *line = &device->line[gf_host_computing];
    return line->at.line && 2 * line->own_ns > line->ns;
}

const char *gf_summary_gpu_time_remedy(const struct gf_gpu_time *time,
                                       const struct gf_gpu_time_device *device,
                                       enum gf_host_cause cause, char *buf, size_t size)
{
    const uint64_t whole = gf_gpu_time_whole(device);
    struct gf_textbuf out = {buf, size, 0};

    *buf = '\0';
    if (!*causes[cause].remedy || lacks_line(device, cause) || single_gap(device, cause) ||
        was_at_start(device, cause) || is_secondary(device, cause) ||
        permille(device->cause_ns[cause], whole) < REMEDY_LEAST ||
        permille(later_ns(device, cause), whole - device->start.ns) < REMEDY_LEAST)
        return buf;
    if (cause == gf_host_preempted)
        say_users(&out, &time->without_cpu);
    else if (cause == gf_host_computing && computes_in_function_of(device, gf_host_checkpoint))
        gf_say(&out, "%s", causes[gf_host_checkpoint].remedy);
    else if (cause == gf_host_computing && computes_in_function_of(device, gf_host_file_write))
        gf_say(&out, "write in another thread or process");
    else if (cause == gf_host_computing && is_begin_of_optimizer(device))
        gf_say(&out, "%s", causes[gf_host_optimizer].remedy);
    else if (cause != gf_host_computing || is_own_work(device))
        gf_say(&out, "%s", causes[cause].remedy);
    return buf;
}

/*
 * Returns which cause to say next: the one with the most time after the start, and last those of the
 * start. GF_HOST_CAUSE_COUNT: all that take enough time are said.
 */
static unsigned next_cause(const struct gf_gpu_time_device *device,
                           const bool said[GF_HOST_CAUSE_COUNT])
{
    const uint64_t whole = gf_gpu_time_whole(device);
    uint64_t most = 0;
    unsigned ret = GF_HOST_CAUSE_COUNT;

    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++) {
        if (said[i] || permille(device->cause_ns[i], whole) < PERMILLE_LEAST)
            continue;
        const uint64_t weight = was_at_start(device, i)
                                    ? device->cause_ns[i]
                                    : whole + device->cause_ns[i] -
                                          gf_min(device->start.cause_ns[i], device->cause_ns[i]);
        if (weight > most) {
            most = weight;
            ret = i;
        }
    }
    return ret;
}

/* While a thread waits for Python's GIL, the line is that of the thread that holds it. */
static void say_where(struct gf_textbuf *out, const struct gf_cause_line *line,
                      enum gf_host_cause cause)
{
    if (cause != gf_host_gil || !line->holder.line)
        gf_summary_line(&line->at, out);
    if (line->holder.line)
        gf_say(out, ", while another thread was");
    gf_summary_line(&line->holder, out);
}

static void say_when(struct gf_textbuf *out, const struct gf_gpu_time_device *device,
                     enum gf_host_cause cause)
{
    const struct gf_gpu_gap *gap = single_gap(device, cause);

    if (was_mostly_at_start(device, cause))
        gf_say(out, ", %sin the first %lu s", was_at_start(device, cause) ? "" : "mostly ",
               (device->start.ns + UINT64_C(999999999)) / 1000000000);
    else if (gap && gap->cause == cause && gap->ns >= GAP_LEAST_NS)
        gf_say(out, ", most of it in one gap of %lu.%lu s", gap->ns / 1000000000,
               gap->ns / 100000000 % 10);
}

/* Writes lines for time with only copies, and for the largest causes, the largest first. */
static void say_causes(struct gf_textbuf *out, const struct gf_gpu_time *time,
                       const struct gf_gpu_time_device *device)
{
    const uint64_t whole = gf_gpu_time_whole(device);
    char remedy[GF_REMEDY];
    bool said[GF_HOST_CAUSE_COUNT] = {false};

    unsigned count = say_copying(out, device), cause;
    uint64_t least = UINT64_MAX; /* the time of each cause that was said is at least this */

    while ((cause = next_cause(device, said)) != GF_HOST_CAUSE_COUNT) {
        const uint64_t ns = device->cause_ns[cause];
        const bool is_extra =
            permille(ns, whole) >= MUCH && (was_mostly_at_start(device, cause) || ns > least);
        said[cause] = true;
        if (count >= CAUSES_SAID && !is_extra)
            continue;
        count++;
        least = gf_min(least, ns);
        say_share(out, "\n  ", ns, whole);
        gf_say(out, " %s", causes[cause].words);
        say_where(out, &device->line[cause], cause);
        say_when(out, device, cause);
        if (*gf_summary_gpu_time_remedy(time, device, cause, remedy, sizeof(remedy)))
            gf_say(out, " (%s)", remedy);
    }
}

/* If most of the unknown time has one cause, prints the cause and what helps. */
static void say_unknown(struct gf_textbuf *out, const struct gf_gpu_time_device *device,
                        uint64_t whole)
{
    static const char *const reasons[] = {
        [gf_host_paused] = "the process was paused",
        [gf_host_throttled] = "the CPU quota stopped the process; raise it",
        [gf_host_preempted] =
            "all CPUs were busy; request more, or run fewer threads and processes",
    };
    const uint64_t unknown_ns = device->state_ns[gf_gpu_unknown];

    if (!permille(unknown_ns, whole))
        return;
    say_share(out, "; not known ", unknown_ns, whole);
    for (unsigned i = 0; i < GF_LATE_CAUSES; i++)
        if (2 * device->late_ns[i] > unknown_ns && permille(unknown_ns, whole) >= UNKNOWN_MUCH)
            gf_say(out, " (%s)", reasons[i]);
}

/* A program's start is idle time that hides how busy the GPU is in a short run. */
static void say_later(struct gf_textbuf *out, const struct gf_gpu_time_device *device,
                      uint64_t whole)
{
    const uint64_t start_ns = device->start.ns, empty_ns = device->state_ns[gf_gpu_empty];
    uint64_t later_empty_ns = empty_ns;

    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        later_empty_ns -= gf_min(device->start.cause_ns[i], later_empty_ns);
    if (start_ns &&
        permille(later_empty_ns, whole - start_ns) + LATER_LESS <= permille(empty_ns, whole)) {
        say_share(out, ", ", later_empty_ns, whole - start_ns);
        gf_say(out, " after the first %lu s", (start_ns + UINT64_C(999999999)) / 1000000000);
    }
}

static void say_device(struct gf_textbuf *out, unsigned number, bool several,
                       const struct gf_gpu_time_device *device)
{
    const uint64_t whole = gf_gpu_time_whole(device);

    if (several)
        gf_say(out, "%sGPU %u", out->at ? "\n" : "", number);
    else
        gf_say(out, "the GPU");
    say_share(out, " had nothing to do ", device->state_ns[gf_gpu_empty], whole);
    gf_say(out, " of %lu.%lu s", whole / 1000000000, whole / 100000000 % 10);
    say_later(out, device, whole);
    if (permille(device->state_ns[gf_gpu_copying], whole))
        say_share(out, "; only copies ", device->state_ns[gf_gpu_copying], whole);
    say_unknown(out, device, whole);
}

static void say_communication(struct gf_textbuf *out, const struct gf_gpu_time_device *device)
{
    const uint64_t whole = gf_gpu_time_whole(device);

    if (permille(device->state_ns[gf_gpu_communicating], whole) < PERMILLE_LEAST)
        return;
    say_share(out, "\nonly communication ", device->state_ns[gf_gpu_communicating], whole);
    gf_say(out, " of the time, which includes waits for other ranks");
}

/*
 * Returns the device that was empty for the longest time. The devices whose bits are set in `said`
 * were already printed, and are skipped.
 */
static int find_emptiest(const struct gf_gpu_time *time, unsigned said)
{
    int ret = -1;

    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        if (is_said(&time->device[i]) && !(said >> i & 1) &&
            (ret < 0 ||
             time->device[i].state_ns[gf_gpu_empty] > time->device[ret].state_ns[gf_gpu_empty]))
            ret = (int)i;
    return ret;
}

void gf_summary_gpu_time(const struct gf_gpu_time *time, struct gf_textbuf *out)
{
    const int first = find_emptiest(time, 0);
    unsigned used = 0, said = 0;

    if (first < 0)
        return;
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        used += is_said(&time->device[i]);
    for (unsigned i = 0; i < gf_min(used, GPUS_SAID); i++) {
        const int device = find_emptiest(time, said);
        said |= 1u << device;
        say_device(out, (unsigned)device, used > 1, &time->device[device]);
        if (device == first)
            say_causes(out, time, &time->device[first]);
    }
    say_communication(out, &time->device[first]);
}

#define P99_STEPS 100u /* with fewer steps, the 99th percentile is the longest step */
#define DATA_LEAST 50u /* a wait below one part in fifty of a step is omitted */

static void say_ms(struct gf_textbuf *out, const char *before, uint64_t ns)
{
    gf_say(out, "%s%lu.%lu ms", before, ns / 1000000, ns / 100000 % 10);
}

/* How the steps were found, which the reader needs to judge the numbers. */
static void say_source(struct gf_textbuf *out, const struct gf_step_times *times)
{
    if (times->source == gf_step_copies) {
        gf_say(out, " (a copy of ");
        gf_say_bytes(out, times->bytes);
        gf_say(out, " to the GPU begins each)");
    } else if (times->source == gf_step_graphs) {
        gf_say(out, " (a launch of one graph begins each)");
    } else if (times->source == gf_step_waits) {
        gf_say(out, " (a wait for the GPU ends each)");
    }
}

static void say_faults(struct gf_textbuf *out, const struct gf_step_cause *cause)
{
    gf_say(out, ", with %lu page faults", cause->minor + cause->major);
    if (cause->major)
        gf_say(out, ", %lu of them with I/O", cause->major);
}

/* What was different in the step. */
static void say_difference(struct gf_textbuf *out, const struct gf_step_cause *cause)
{
    switch (cause->difference) {
    case gf_step_by_stall:
        say_ms(out, ", in which calls stalled for ", cause->stall_ns);
        gf_say(out, ": %s", gf_cause_name(cause->stall));
        break;
    case gf_step_by_quota:
        say_ms(out, ", in which the CPU quota stopped threads for ", cause->throttled_ns);
        break;
    case gf_step_by_faults:
        say_faults(out, cause);
        break;
    case gf_step_by_communication:
        say_ms(out, ", in which only communication was unfinished for ", cause->communicating_ns);
        gf_say(out, ": another rank may have been late");
        break;
    case gf_step_by_clock:
        say_ms(out, ", in which a low GPU clock cost ", cause->clock_ns);
        break;
    case gf_step_by_work:
        say_ms(out, ", in which the GPU had work for ", cause->queued_ns);
        break;
    case gf_step_by_idle:
        say_ms(out, ", in which the GPU had nothing to do for ", cause->idle_ns);
        gf_say(out, ": %s", gf_summary_gpu_time_cause(cause->idle));
        break;
    default:
        break;
    }
}

static void say_slowest(struct gf_textbuf *out, const struct gf_step_times *times)
{
    struct gf_step_cause cause;

    say_ms(out, ", longest ", times->max_ns);
    if (!times->slow[0].ns)
        return;
    gf_step_causes_find(times, &times->slow[0], &cause);
    say_difference(out, &cause);
}

void gf_summary_steps(const struct gf_report *report, struct gf_textbuf *out)
{
    struct gf_step_times times;

    report->preload->step_times(&times);
    if (times.source == gf_step_none)
        return;
    gf_say(out, "%lu step%s", times.steps, times.steps == 1 ? "" : "s");
    say_source(out, &times);
    say_ms(out, ": median ", times.p50_ns);
    if (times.steps >= P99_STEPS)
        say_ms(out, ", p99 ", times.p99_ns);
    say_slowest(out, &times);
    const uint64_t data_ns = gf_step_causes_data_ns(&times, &report->gpu_time);
    if (data_ns == UINT64_MAX || data_ns * DATA_LEAST < times.p50_ns)
        return;
    say_ms(out, "; the mean step waits ", data_ns);
    gf_say(out, " for data");
}
