/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/summary_stalls.h"

#include "base/fmt.h"

#define CAUSES_SAID 3u
#define ULL(x) ((unsigned long long)(x))

/* Writes a duration as "850 us", "12.5 ms" or "42.0 s". */
static void say_time(struct gf_textbuf *out, uint64_t us)
{
    if (us < 1000)
        gf_say(out, "%llu us", ULL(us));
    else if (us < 1000000)
        gf_say(out, "%llu.%llu ms", ULL(us / 1000), ULL(us / 100 % 10));
    else
        gf_say(out, "%llu.%llu s", ULL(us / 1000000), ULL(us / 100000 % 10));
}

static void say_threshold(struct gf_textbuf *out, uint64_t us)
{
    if (us % 1000)
        gf_say(out, "%llu us", ULL(us));
    else
        gf_say(out, "%llu ms", ULL(us / 1000));
}

static void say_run(struct gf_textbuf *out, uint64_t ms)
{
    if (ms < 1000)
        gf_say(out, " in %llu ms", ULL(ms));
    else if (ms < 10000)
        gf_say(out, " in %llu.%llu s", ULL(ms / 1000), ULL(ms / 100 % 10));
    else if (ms < 120000)
        gf_say(out, " in %llu s", ULL(ms / 1000));
    else if (ms < 7200000)
        gf_say(out, " in %llu min", ULL(ms / 60000));
    else
        gf_say(out, " in %llu h", ULL(ms / 3600000));
}

static void say_causes(struct gf_textbuf *out, const struct gf_stall_count counts[GF_CAUSE_COUNT])
{
    bool said[GF_CAUSE_COUNT] = {false};

    for (unsigned count = 0; count < CAUSES_SAID; count++) {
        unsigned most = 0;
        for (unsigned i = 1; i < GF_CAUSE_COUNT; i++)
            if (said[most] || (!said[i] && counts[i].us > counts[most].us))
                most = i;
        if (said[most] || !counts[most].calls)
            return;
        said[most] = true;
        gf_say(out, "%s%s ", count ? ", " : ": ", gf_cause_name((enum gf_cause)most));
        say_time(out, counts[most].us);
    }
}

void gf_summary_stalls(const struct gf_report *report, char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};
    struct gf_stall_count counts[GF_CAUSE_COUNT];
    uint64_t calls = 0, us = 0;

    *buf = '\0';
    if (!report->stall_counts || !report->options->stall_us)
        return;
    report->stall_counts(counts);
    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        calls += counts[i].calls;
        us += counts[i].us;
    }
    if (calls)
        gf_say(&out, "%llu stall%s above ", ULL(calls), calls == 1 ? "" : "s");
    else
        gf_say(&out, "no stall above ");
    say_threshold(&out, report->options->stall_us);
    say_run(&out, report->ran_ms);
    if (!calls)
        return;
    gf_say(&out, " took ");
    say_time(&out, us);
    say_causes(&out, counts);
    if (!report->log_count)
        gf_say(&out, " (GPUFEED_LOG=FILE records each of them)");
}
