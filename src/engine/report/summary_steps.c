/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/summary_steps.h"

#include "abi/trace_api.h"
#include "base/fmt.h"
#include "engine/gputime/step_causes.h"
#include "engine/report/summary_gpu_time.h"

#define ULL(x) ((unsigned long long)(x))
#define P99_STEPS 100u /* with fewer steps, the 99th percentile is the longest step */
#define DATA_LEAST 50u /* a wait below one part in fifty of a step is omitted */

static void say_ms(struct gf_textbuf *out, const char *before, uint64_t ns)
{
    gf_say(out, "%s%llu.%llu ms", before, ULL(ns / 1000000), ULL(ns / 100000 % 10));
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
    gf_say(out, ", with %llu page faults", ULL(cause->minor + cause->major));
    if (cause->major)
        gf_say(out, ", %llu of them with I/O", ULL(cause->major));
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

void gf_summary_steps(const struct gf_report *report, char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};
    struct gf_step_times times = {.source = gf_step_none};

    *buf = '\0';
    if (report->step_times)
        report->step_times(&times);
    if (times.source == gf_step_none)
        return;
    gf_say(&out, "%llu step%s", ULL(times.steps), times.steps == 1 ? "" : "s");
    say_source(&out, &times);
    say_ms(&out, ": median ", times.p50_ns);
    if (times.steps >= P99_STEPS)
        say_ms(&out, ", p99 ", times.p99_ns);
    say_slowest(&out, &times);
    const uint64_t data_ns = gf_step_causes_data_ns(&times, &report->gpu_time);
    if (data_ns == UINT64_MAX || data_ns * DATA_LEAST < times.p50_ns)
        return;
    say_ms(&out, "; the mean step waits ", data_ns);
    gf_say(&out, " for data");
}
