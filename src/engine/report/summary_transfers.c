/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/summary_transfers.h"

#include "base/path.h"
#include "base/fmt.h"

/* Small copies are omitted if they copied less than this. */
#define SMALL_BYTES_MIN (UINT64_C(16) << 20)
#define SAVING_MS_MIN 100

#define ULL(x) ((unsigned long long)(x))

/* A rate below 0.1 GB/s, as in a short run, would be printed as 0.0 GB/s. */
static void say_rate(struct gf_textbuf *out, const struct gf_copy_counts *counts)
{
    const uint64_t mb_per_s = gf_transfer_sums_rate(counts);

    if (mb_per_s >= 100)
        gf_say(out, " at %llu.%llu GB/s", ULL(mb_per_s / 1000), ULL(mb_per_s / 100 % 10));
    else if (mb_per_s)
        gf_say(out, " at %llu MB/s", ULL(mb_per_s));
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

static void say_reasons(struct gf_textbuf *out, const struct gf_report_transfers *transfers,
                        enum gf_direction direction)
{
    const char *separator = " (", *off = transfers->state.off;

    for (unsigned why = 0; why < gf_bypass_count; why++) {
        struct gf_copy_counts counts;
        gf_transfer_sums_bypassed(&transfers->copies, direction, why, &counts);
        if (!counts.calls || !gf_transfer_sums_is_pageable(why))
            continue;
        if (why == gf_bypass_off && off)
            gf_say(out, "%sstaging is off, %s", separator, off);
        else
            gf_say(out, "%s%s", separator, gf_bypass_text(why));
        gf_say(out, ": %llu", ULL(counts.calls));
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
    struct gf_copy_counts staged, pinned, driver;

    gf_transfer_sums_staged(copies, direction, &staged);
    gf_transfer_sums_bypassed(copies, direction, gf_bypass_pinned, &pinned);
    gf_transfer_sums_driver(copies, direction, &driver);
    if (!staged.calls && !pinned.calls && !driver.calls)
        return;
    gf_say(out, "%s%s ", *separator, title);
    *separator = "; ";
    say_counts(out, &staged, "staged", true, &part_separator);
    say_counts(out, &pinned, "from or to pinned memory", false, &part_separator);
    say_counts(out, &driver, "by the driver", true, &part_separator);
    say_reasons(out, transfers, direction);
}

static bool add_hook(void *closure, const struct gf_hook_counts *counts)
{
    gf_transfer_sums_add_hook(closure, counts);
    return true;
}

/*
 * Mentions the small copies, which the library does not examine, because the program may make only
 * such copies.
 */
static void say_small(struct gf_textbuf *out, const struct gf_report_transfers *transfers,
                      gf_hook_counts_each *each_hook, const char *separator)
{
    const uint64_t min_bytes = transfers->min_bytes;
    const char *off = transfers->state.off;
    struct gf_small_copies sums = {0};

    if (each_hook)
        each_hook(add_hook, &sums);
    if (sums.small_bytes < SMALL_BYTES_MIN)
        return;
    gf_say(out, "%s", separator);
    gf_say_bytes(out, sums.small_bytes);
    gf_say(out, " by the driver in %llu copies", ULL(sums.small));
    if (min_bytes == SIZE_MAX)
        gf_say(out, " (staging is off%s%s)", off ? ", " : "", off ? off : "");
    else if (min_bytes < (1 << 20))
        gf_say(out, " of less than %llu KiB", ULL(min_bytes >> 10));
    else
        gf_say(out, " of less than %llu MiB", ULL(min_bytes >> 20));
}

static void say_ring(struct gf_textbuf *out, const struct gf_report_transfers *transfers)
{
    const uint64_t waits = transfers->copies.stream_waits;

    if (!transfers->state.ring_most)
        return;
    gf_say(out, "; staging ring of ");
    gf_say_bytes(out, transfers->state.ring_most);
    if (waits)
        gf_say(out, ", too small for %llu cop%s", ULL(waits), waits == 1 ? "y" : "ies");
}

static void say_pinned(struct gf_textbuf *out, const struct gf_pinned_stats *stats)
{
    if (!stats->large_calls)
        return;
    gf_say(out, "%s", out->at ? "; " : "");
    gf_say_bytes(out, stats->large_bytes);
    gf_say(out, " of pinned memory served in %llu.%03llu s", ULL(stats->large_ns / 1000000000),
           ULL(stats->large_ns / 1000000 % 1000));
}

static void say_saving(struct gf_textbuf *out, const struct gf_copy_stats *copies)
{
    uint64_t pinned_rate;
    const uint64_t ms = gf_transfer_sums_saving_ns(copies, &pinned_rate) / 1000000;

    if (ms >= SAVING_MS_MIN)
        gf_say(out, "; pinning the source (pin_memory=True) would save at most %llu.%llu s",
               ULL(ms / 1000), ULL(ms / 100 % 10));
}

void gf_summary_transfers(const struct gf_report_transfers *transfers,
                          gf_hook_counts_each *each_hook, char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};
    const char *separator = "";

    *buf = '\0';
    if (!transfers->known)
        return;
    say_direction(&out, transfers, gf_direction_h2d, "copied to the GPU:", &separator);
    say_direction(&out, transfers, gf_direction_d2h, "copied from the GPU:", &separator);
    say_small(&out, transfers, each_hook, *separator ? separator : "copies: ");
    say_ring(&out, transfers);
    say_pinned(&out, &transfers->pinned);
    say_saving(&out, &transfers->copies);
}

static const char *remedy(bool to_device)
{
    return to_device ? "pin the source and pass non_blocking=True, or copy before that work is "
                       "submitted"
                     : "copy into pinned memory with non_blocking=True, and wait later";
}

static const char *direction(bool to_device)
{
    return to_device ? "to" : "from";
}

/* Writes where the copies are made; a program without Python has no lines. */
static void say_waiters(struct gf_textbuf *out, const struct gf_copy_wait_line *line)
{
    gf_say(out, "copies %s the GPU", direction(line->to_device));
    if (line->line)
        gf_say(out, " at %s:%d in %s", gf_path_file_name(line->file), line->line, line->function);
}

/* Returns the line with the longest waits, or the sum of a direction if no line is known. */
static struct gf_copy_wait_line find_longest(const struct gf_copy_waits *waits)
{
    const bool to_device = waits->to_device.ns >= waits->from_device.ns;
    struct gf_copy_wait_line ret = {.to_device = to_device,
                                    .sum = to_device ? waits->to_device : waits->from_device};

    for (unsigned i = 0; i < waits->lines; i++)
        if (!ret.line || waits->line[i].sum.ns > ret.sum.ns)
            ret = waits->line[i];
    return ret;
}

void gf_summary_copy_waits(const struct gf_copy_wait_source *source, char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};
    struct gf_copy_waits waits;

    *buf = '\0';
    if (!source->read)
        return;
    source->read(&waits);
    const struct gf_copy_wait_line longest = find_longest(&waits);
    const uint64_t share =
        gf_transfer_sums_share(longest.sum.ns, gf_transfer_sums_whole_ns(source), 1000);
    if (share * GF_COPY_WAIT_SHARE < 1000)
        return;
    gf_say(&out, "; ");
    say_waiters(&out, &longest);
    gf_say(&out, " waited %llu.%llu %% of the time for earlier work of their stream (%s)",
           ULL(share / 10), ULL(share % 10), remedy(longest.to_device));
}

void gf_summary_copy_wait(const struct gf_copy_wait_line *line, uint64_t interval_ns, char *buf,
                          size_t size)
{
    struct gf_textbuf out = {buf, size, 0};

    say_waiters(&out, line);
    gf_say(&out, " waited %llu of %llu ms for earlier work of their stream; %s",
           ULL(line->sum.ns / 1000000), ULL(interval_ns / 1000000), remedy(line->to_device));
}
