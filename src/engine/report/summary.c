/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/summary.h"

#include "base/atomic.h"
#include "base/path.h"
#include "engine/transfer/tuning.h"
#include "host/mempolicy.h"

#include <linux/mempolicy.h>

static const char *plural_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void say_own_masks(struct gf_textbuf *out, const struct gf_threads *threads)
{
    if (threads->self_set)
        gf_say(out, ", %u with %s own mask%s", threads->self_set,
               threads->self_set == 1 ? "its" : "their", plural_s(threads->self_set));
}

static void say_gpus(struct gf_textbuf *out, const struct gf_decision *decision)
{
    const struct gf_gpu *first = &decision->gpus[0];
    char nodes[128];

    if (decision->gpu_count == 1)
        gf_say(out, "GPU %d %s %s", first->device, first->name, first->bdf);
    else
        gf_say(out, "%zu GPUs (first %s %s)", decision->gpu_count, first->name, first->bdf);
    if (gf_set_empty(&decision->verdict.nodes))
        gf_say(out, " node unknown");
    else
        gf_say(out, " node %s", gf_set_format(&decision->verdict.nodes, nodes, sizeof(nodes)));
    if (decision->verdict.node_source)
        gf_say(out, " (%s)", decision->verdict.node_source);
}

static void say_threads(struct gf_textbuf *out, const struct gf_decision *decision)
{
    char cpus[256];
    const struct gf_threads *threads = &decision->threads;

    gf_say(out, "%u thread%s", threads->on_target, plural_s(threads->on_target));
    if (decision->bind.descendants)
        gf_say(out, " and %u worker thread%s", decision->bind.descendants,
               plural_s(decision->bind.descendants));
    gf_say(out, " on CPUs %s", gf_set_format(&decision->cpus, cpus, sizeof(cpus)));
    say_own_masks(out, threads);
    if (threads->elsewhere)
        gf_say(out, ", %u on other CPUs", threads->elsewhere);
}

static void say_memory(struct gf_textbuf *out, const struct gf_decision *decision)
{
    char nodes[128];

    gf_set_format(&decision->verdict.policy_nodes, nodes, sizeof(nodes));
    if (decision->policy == MPOL_PREFERRED || decision->policy == GF_MPOL_PREFERRED_MANY)
        gf_say(out, "; memory prefers node %s", nodes);
    else if (decision->policy == MPOL_BIND)
        gf_say(out, "; memory on node %s only", nodes);
    else
        gf_say(out, "; memory: %s", decision->verdict.policy_reason);
}

void gf_summary_verdict(const struct gf_decision *decision, const struct gf_options *options,
                        struct gf_textbuf *out)
{
    const struct gf_verdict *verdict = &decision->verdict;
    char cpus[256];

    say_gpus(out, decision);
    gf_say(out, ": ");
    if (decision->bound) {
        say_threads(out, decision);
        say_memory(out, decision);
    } else if (decision->observe && verdict->bound != gf_bound_none) {
        gf_say(out, "observed only; would use CPUs %s",
               gf_set_format(&verdict->cpus, cpus, sizeof(cpus)));
    } else {
        gf_say(out, "%s: %s",
               verdict->bound == gf_bound_submitters ? "nothing bound yet" : "not bound",
               verdict->reason);
        if (decision->policy != MPOL_DEFAULT)
            say_memory(out, decision);
    }
    if (options->verbose > 1 && decision->bound)
        gf_say(out, "; %s", verdict->reason);
    if (*verdict->remedy)
        gf_say(out, " (%s)", verdict->remedy);
}

void gf_summary_mps(const struct gf_decision *decision, struct gf_textbuf *out)
{
    const struct gf_facts *facts = &decision->facts;
    bool shared = false;

    for (size_t i = 0; i < decision->gpu_count; i++)
        shared |= decision->gpus[i].mps;
    if (!shared)
        return;
    gf_say(out, "MPS shares the GPU with other processes; its idle time here is that of this one");
    if (*facts->mps_threads)
        gf_say(out, "; CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s", facts->mps_threads);
    if (*facts->mps_memory)
        gf_say(out, "; CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s", facts->mps_memory);
}

static void say_pages(struct gf_textbuf *out, const struct gf_report *report, const char *what,
                      const struct gf_pages *pages)
{
    char nodes[128];
    if (!pages->total)
        return;
    gf_say(out, "; %s ", what);
    gf_say_bytes(out, pages->total);
    if (gf_set_empty(&report->decision.verdict.nodes))
        return;
    const unsigned share = gf_pages_share(pages, &report->decision.verdict.nodes);
    gf_say(out, ", %u.%u %% on node %s", share / 10, share % 10,
           gf_set_format(&report->decision.verdict.nodes, nodes, sizeof(nodes)));
}

static void say_last_move(struct gf_textbuf *out, const struct gf_report *report)
{
    for (size_t i = report->event_count; i-- > 0;) {
        const enum gf_report_event_kind kind = report->events[i].kind;
        /* These were already printed when they happened, or need no line. */
        if (kind == gf_report_left || kind == gf_report_standstill || kind == gf_report_resumed)
            continue;
        gf_say(out, "; %s", report->events[i].text);
        break;
    }
}

void gf_summary_exit(const struct gf_report *report, struct gf_textbuf *out)
{
    char cpus[256];

    gf_say(out, "after %lu.%lu s: ", report->ran_ms / 1000, report->ran_ms % 1000 / 100);
    if (!report->sample_count) {
        gf_say(out, "the placement was not read back");
        return;
    }
    const struct gf_threads *peak = &report->peak;
    const unsigned workers = gf_load_relaxed(&report->counts->peak_descendants);
    if (report->decision.bound)
        gf_say(out, "%u of %u thread%s on CPUs %s", peak->on_target, peak->program,
               plural_s(peak->program), gf_set_format(&report->decision.cpus, cpus, sizeof(cpus)));
    else
        gf_say(out, "%u thread%s, not bound", peak->program, plural_s(peak->program));
    say_own_masks(out, peak);
    if (workers)
        gf_say(out, ", %u worker thread%s", workers, plural_s(workers));
    const struct gf_locality *last = &report->samples[report->sample_count - 1].locality;
    say_pages(out, report, "heap", &last->heap);
    say_pages(out, report, "other memory", &last->other);
    say_last_move(out, report);
}

#define CAUSES_SAID 3u

/* Writes a duration as "850 us", "12.5 ms" or "42.0 s". */
static void say_time(struct gf_textbuf *out, uint64_t us)
{
    if (us < 1000)
        gf_say(out, "%lu us", us);
    else if (us < 1000000)
        gf_say(out, "%lu.%lu ms", us / 1000, us / 100 % 10);
    else
        gf_say(out, "%lu.%lu s", us / 1000000, us / 100000 % 10);
}

static void say_threshold(struct gf_textbuf *out, uint64_t us)
{
    if (us % 1000)
        gf_say(out, "%lu us", us);
    else
        gf_say(out, "%lu ms", us / 1000);
}

static void say_run(struct gf_textbuf *out, uint64_t ms)
{
    if (ms < 1000)
        gf_say(out, " in %lu ms", ms);
    else if (ms < 10000)
        gf_say(out, " in %lu.%lu s", ms / 1000, ms / 100 % 10);
    else if (ms < 120000)
        gf_say(out, " in %lu s", ms / 1000);
    else if (ms < 7200000)
        gf_say(out, " in %lu min", ms / 60000);
    else
        gf_say(out, " in %lu h", ms / 3600000);
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

void gf_summary_stalls(const struct gf_report *report, struct gf_textbuf *out)
{
    const unsigned threshold_us = report->preload->options->stall_us;
    struct gf_stall_count counts[GF_CAUSE_COUNT];

    if (!threshold_us)
        return;
    report->preload->stall_counts(counts);
    const struct gf_stall_count all = gf_stall_sum(counts);
    if (all.calls)
        gf_say(out, "%lu stall%s above ", all.calls, plural_s(all.calls));
    else
        gf_say(out, "no stall above ");
    say_threshold(out, threshold_us);
    say_run(out, report->ran_ms);
    if (!all.calls)
        return;
    gf_say(out, " took ");
    say_time(out, all.us);
    say_causes(out, counts);
    if (!report->preload->log_wanted())
        gf_say(out, " (GPUFEED_LOG=FILE records each of them)");
}

/* Small copies are omitted if they copied less than this. */
#define SMALL_BYTES_MIN (UINT64_C(16) << 20)
#define SAVING_MS_MIN 100

/* A rate below 0.1 GB/s, as in a short run, would be printed as 0.0 GB/s. */
static void say_rate(struct gf_textbuf *out, const struct gf_copy_counts *counts)
{
    const uint64_t mb_per_s = gf_transfer_sums_rate(counts);

    if (mb_per_s >= 100)
        gf_say(out, " at %lu.%lu GB/s", mb_per_s / 1000, mb_per_s / 100 % 10);
    else if (mb_per_s)
        gf_say(out, " at %lu MB/s", mb_per_s);
    else
        gf_say(out, " at less than 1 MB/s");
}

static void say_counts(struct gf_textbuf *out, const struct gf_copy_counts *counts, const char *how,
                       bool with_rate, const char **separator)
{
    if (!counts->calls)
        return;
    gf_say(out, "%s", *separator);
    *separator = ", ";
    gf_say_bytes(out, counts->bytes);
    gf_say(out, " %s", how);
    if (with_rate && counts->timed_ns)
        say_rate(out, counts);
}

/*
 * Names the threshold where it is known. On the per-thread default stream, copies of up to 2 MiB are
 * small, whatever the number of threads is.
 */
static void say_reason(struct gf_textbuf *out, const struct gf_transfer_state *state,
                       enum gf_direction direction, enum gf_bypass why)
{
    const size_t least = state->least[direction];

    if (why == gf_bypass_off && state->off) {
        gf_say(out, "staging is off, %s", state->off);
    } else if (why == gf_bypass_small && state->threads && least > GF_TUNE_ASYNC_NOWAIT &&
               least != SIZE_MAX) {
        gf_say(out, "below ");
        gf_say_bytes(out, least);
        gf_say(out, ", from which %u copying thread%s stage%s", state->threads,
               plural_s(state->threads), state->threads == 1 ? "s" : "");
    } else {
        gf_say(out, "%s", gf_bypass_text(why));
    }
}

static void say_reasons(struct gf_textbuf *out, const struct gf_report_transfers *transfers,
                        enum gf_direction direction)
{
    const char *separator = " (";

    for (unsigned why = 0; why < gf_bypass_count; why++) {
        const struct gf_copy_counts counts =
            gf_transfer_sums_bypassed(&transfers->copies, direction, why);
        if (!counts.calls || gf_copy_group(why) != gf_copy_group_driver)
            continue;
        gf_say(out, "%s", separator);
        say_reason(out, &transfers->state, direction, why);
        gf_say(out, ": %lu", counts.calls);
        separator = "; ";
    }
    if (*separator == ';')
        gf_say(out, ")");
}

static void say_direction(struct gf_textbuf *out, const struct gf_report_transfers *transfers,
                          enum gf_direction direction, const char *title, const char **separator)
{
    const struct gf_copy_stats *copies = &transfers->copies;
    const char *part_separator = "";
    const struct gf_copy_counts staged =
                                    gf_transfer_sums_group(copies, direction, gf_copy_group_staged),
                                pinned =
                                    gf_transfer_sums_group(copies, direction, gf_copy_group_pinned),
                                driver =
                                    gf_transfer_sums_group(copies, direction, gf_copy_group_driver);

    if (!staged.calls && !pinned.calls && !driver.calls)
        return;
    gf_say(out, "%s%s ", *separator, title);
    *separator = "; ";
    say_counts(out, &staged, "staged", true, &part_separator);
    say_counts(out, &pinned, "from or to pinned memory", false, &part_separator);
    say_counts(out, &driver, "by the driver", true, &part_separator);
    say_reasons(out, transfers, direction);
}

/*
 * Mentions the small copies, which the library does not examine, because the program may make only
 * such copies.
 */
static void say_small(struct gf_textbuf *out, const struct gf_report_transfers *transfers,
                      gf_hook_counts_fn *hook_counts, const char *separator)
{
    const uint64_t min_bytes = transfers->min_bytes;
    const char *off = transfers->state.off;
    struct gf_small_copies sums = {0};
    struct gf_hook_counts counts;

    for (size_t i = 0; hook_counts(i, &counts); i++)
        gf_transfer_sums_add_hook(&sums, &counts);
    if (sums.small_bytes < SMALL_BYTES_MIN)
        return;
    gf_say(out, "%s", separator);
    gf_say_bytes(out, sums.small_bytes);
    gf_say(out, " by the driver in %lu copies", sums.small);
    if (min_bytes == SIZE_MAX)
        gf_say(out, " (staging is off%s%s)", off ? ", " : "", off ? off : "");
    else if (min_bytes < (1 << 20))
        gf_say(out, " of less than %lu KiB", min_bytes >> 10);
    else
        gf_say(out, " of less than %lu MiB", min_bytes >> 20);
}

static void say_ring(struct gf_textbuf *out, const struct gf_report_transfers *transfers)
{
    const uint64_t waits = transfers->copies.stream_waits;

    if (!transfers->state.ring_most)
        return;
    gf_say(out, "; staging ring of ");
    gf_say_bytes(out, transfers->state.ring_most);
    if (waits)
        gf_say(out, ", too small for %lu cop%s", waits, waits == 1 ? "y" : "ies");
}

static void say_pinned(struct gf_textbuf *out, const struct gf_pinned_stats *stats)
{
    if (!stats->large_calls)
        return;
    gf_say(out, "%s", out->at ? "; " : "");
    gf_say_bytes(out, stats->large_bytes);
    gf_say(out, " of pinned memory served in %lu.%03lu s", stats->large_ns / 1000000000,
           stats->large_ns / 1000000 % 1000);
}

static void say_saving(struct gf_textbuf *out, const struct gf_copy_stats *copies)
{
    uint64_t pinned_rate;
    const uint64_t ms = gf_transfer_sums_saving_ns(copies, &pinned_rate) / 1000000;

    if (ms >= SAVING_MS_MIN)
        gf_say(out, "; pinning the source (pin_memory=True) would save at most %lu.%lu s",
               ms / 1000, ms / 100 % 10);
}

void gf_summary_transfers(const struct gf_report_transfers *transfers,
                          gf_hook_counts_fn *hook_counts, struct gf_textbuf *out)
{
    const char *separator = "";

    if (!transfers->known)
        return;
    say_direction(out, transfers, gf_direction_h2d, "copied to the GPU:", &separator);
    say_direction(out, transfers, gf_direction_d2h, "copied from the GPU:", &separator);
    say_small(out, transfers, hook_counts, *separator ? separator : "copies: ");
    say_ring(out, transfers);
    say_pinned(out, &transfers->copies.pinned);
    say_saving(out, &transfers->copies);
}

static const char *remedy(bool to_device)
{
    return to_device ? "pin the source and pass non_blocking=True, or copy before that work is "
                       "submitted"
                     : "copy into pinned memory with non_blocking=True, and use the result after "
                       "the next step's work is submitted";
}

void gf_summary_line(const struct gf_python_line *at, struct gf_textbuf *out)
{
    if (at->line)
        gf_say(out, " at %s:%d in %s", gf_path_file_name(at->file), at->line, at->function);
}

/* Writes where the copies are made; a program without Python has no lines. */
static void say_waiters(struct gf_textbuf *out, const struct gf_copy_wait_line *line)
{
    gf_say(out, "copies %s the GPU", line->to_device ? "to" : "from");
    gf_summary_line(&line->at, out);
}

/* Returns the line with the longest waits, or the sum of a direction if no line is known. */
static struct gf_copy_wait_line find_longest(const struct gf_copy_waits *waits)
{
    const bool to_device = waits->to_device.ns >= waits->from_device.ns;
    struct gf_copy_wait_line ret = {.to_device = to_device,
                                    .sum = to_device ? waits->to_device : waits->from_device};

    for (unsigned i = 0; i < waits->lines; i++)
        if (!ret.at.line || waits->line[i].sum.ns > ret.sum.ns)
            ret = waits->line[i];
    return ret;
}

/*
 * Whether the wait of the copies did not cost the GPUs time. They are known to have had work for nine
 * tenths of the time; or, since what follows a copy from the GPU often needs its result at once,
 * most of their other time has another cause than a wait for the GPU.
 */
static bool are_free_of_waits(const struct gf_gpu_time *time, bool to_device)
{
    uint64_t whole = 0, other = 0, empty = 0, waits = 0;

    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++) {
        const struct gf_gpu_time_device *device = &time->device[i];
        whole += gf_gpu_time_whole(device);
        other += device->state_ns[gf_gpu_empty] + device->state_ns[gf_gpu_unknown];
        empty += device->state_ns[gf_gpu_empty];
        waits += device->cause_ns[gf_host_gpu_wait];
    }
    return (whole && other < whole / 10) || (!to_device && waits < empty / 2);
}

void gf_summary_copy_waits(const struct gf_report *report, struct gf_textbuf *out)
{
    const struct gf_preload *preload = report->preload;
    struct gf_copy_waits waits;

    if (!preload->options->copy_wait_us)
        return;
    preload->copy_waits(&waits);
    const struct gf_copy_wait_line longest = find_longest(&waits);
    const uint64_t whole = gf_transfer_sums_whole_ns(preload, report->ran_ms);
    const uint64_t share = gf_transfer_sums_share(longest.sum.ns, whole, 1000);
    if (share * GF_COPY_WAIT_SHARE < 1000)
        return;
    gf_say(out, "; ");
    say_waiters(out, &longest);
    gf_say(out, " waited %lu.%lu %% of the time for earlier work of their stream", share / 10,
           share % 10);
    if (!are_free_of_waits(&report->gpu_time, longest.to_device))
        gf_say(out, " (%s)", remedy(longest.to_device));
}

void gf_summary_copy_wait(const struct gf_copy_wait_line *line, uint64_t interval_ns,
                          struct gf_textbuf *out)
{
    say_waiters(out, line);
    gf_say(out, " waited %lu of %lu ms for earlier work of their stream; %s",
           line->sum.ns / 1000000, interval_ns / 1000000, remedy(line->to_device));
}
