/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/report_transfers.h"

#include "observe/words.h"

#define SMALL_TOLD (UINT64_C(16) << 20) /* bytes in small copies, from which on the summary has them */

static void add(struct gf_tally_copy *sum, const struct gf_tally_copy *copies)
{
    sum->calls += copies->calls;
    sum->bytes += copies->bytes;
    sum->timed_bytes += copies->timed_bytes;
    sum->timed_ns += copies->timed_ns;
}

static bool is_pageable(enum gf_forward why)
{
    return why != gf_forward_pinned && why != gf_forward_ends;
}

void gf_transfer_report_pageable(const struct gf_transfer_stats *copies, bool async,
                                 struct gf_tally_copy *ret)
{
    *ret = (struct gf_tally_copy){0};
    for (unsigned direction = 0; direction < gf_direction_count; direction++) {
        add(ret, &copies->staged[direction][async]);
        for (unsigned why = 0; why < gf_forward_count; why++)
            if (is_pageable(why))
                add(ret, &copies->forwarded[direction][async][why]);
    }
}

void gf_transfer_report_driver(const struct gf_transfer_stats *copies, enum gf_direction direction,
                               struct gf_tally_copy *ret)
{
    *ret = (struct gf_tally_copy){0};
    for (unsigned async = 0; async < 2; async++)
        for (unsigned why = 0; why < gf_forward_count; why++)
            if (is_pageable(why))
                add(ret, &copies->forwarded[direction][async][why]);
}

void gf_transfer_report_staged(const struct gf_transfer_stats *copies, enum gf_direction direction,
                       struct gf_tally_copy *ret)
{
    *ret = (struct gf_tally_copy){0};
    add(ret, &copies->staged[direction][0]);
    add(ret, &copies->staged[direction][1]);
}

void gf_transfer_report_why(const struct gf_transfer_stats *copies, enum gf_direction direction,
                    enum gf_forward why, struct gf_tally_copy *ret)
{
    *ret = (struct gf_tally_copy){0};
    add(ret, &copies->forwarded[direction][0][why]);
    add(ret, &copies->forwarded[direction][1][why]);
}

static uint64_t per(uint64_t bytes, uint64_t unit, uint64_t ns)
{
    const unsigned __int128 all = (unsigned __int128)bytes * unit / ns;
    return all > UINT64_MAX ? UINT64_MAX : (uint64_t)all;
}

/* Thousandths of 10^9 bytes a second. */
static uint64_t rate(const struct gf_tally_copy *way)
{
    return per(way->timed_bytes, 1000, way->timed_ns);
}

uint64_t gf_transfer_report_saving_ns(const struct gf_transfer_stats *copies, uint64_t *ret_rate)
{
    struct gf_tally_copy pinned = {0}, waiting, at_once;
    uint64_t rest;

    for (unsigned direction = 0; direction < gf_direction_count; direction++)
        add(&pinned, &copies->forwarded[direction][0][gf_forward_pinned]);
    gf_transfer_report_pageable(copies, true, &at_once);
    gf_transfer_report_pageable(copies, false, &waiting);
    *ret_rate = pinned.timed_ns ? per(pinned.timed_bytes, 1000000000, pinned.timed_ns) : 0;
    if (!*ret_rate)
        return at_once.timed_ns;
    rest = per(waiting.timed_bytes, 1000000000, *ret_rate);
    return at_once.timed_ns + (waiting.timed_ns > rest ? waiting.timed_ns - rest : 0);
}

/* The report. */

static void put_way(struct gf_json *json, const char *key, const struct gf_tally_copy *way,
                    bool rated)
{
    gf_json_begin(json, key, '{');
    gf_json_size(json, "calls", way->calls);
    gf_json_size(json, "bytes", way->bytes);
    gf_json_milli(json, "held_up_s", way->timed_ns / 1000000);
    if (rated && way->timed_ns)
        gf_json_milli(json, "gb_per_s", rate(way));
    gf_json_end(json, '}');
}

static void put_reasons(struct gf_json *json, const struct gf_transfer_stats *copies,
                        enum gf_direction direction)
{
    gf_json_begin(json, "reasons", '{');
    for (unsigned why = 0; why < gf_forward_count; why++) {
        struct gf_tally_copy way;
        gf_transfer_report_why(copies, direction, why, &way);
        if (way.calls && is_pageable(why))
            put_way(json, gf_forward_name(why), &way, true);
    }
    gf_json_end(json, '}');
}

static void put_direction(struct gf_json *json, const char *key,
                          const struct gf_transfer_stats *copies, enum gf_direction direction)
{
    const struct gf_tally_copy *rest = &copies->rest[direction];
    struct gf_tally_copy staged, pinned, driver, neither;

    gf_transfer_report_staged(copies, direction, &staged);
    gf_transfer_report_why(copies, direction, gf_forward_pinned, &pinned);
    gf_transfer_report_why(copies, direction, gf_forward_ends, &neither);
    gf_transfer_report_driver(copies, direction, &driver);
    gf_json_begin(json, key, '{');
    put_way(json, "staged", &staged, true);
    gf_json_size(json, "staged_rest", rest->bytes);
    /* A pinned copy that returns at once says nothing about how fast it is. */
    put_way(json, "pinned", &pinned, false);
    put_way(json, "driver", &driver, true);
    put_reasons(json, copies, direction);
    put_way(json, "neither", &neither, false);
    gf_json_end(json, '}');
}

struct entries {
    struct gf_json *json;
    uint64_t small, small_bytes, unfit, unfit_bytes;
};

static bool add_entry(void *closure, const struct gf_tally *tally)
{
    struct entries *entries = closure;
    if (!tally->bytes)
        return true; /* no copy */
    /* Counters go on meanwhile: a copy may be known as large before it is known at all. */
    entries->small +=
        gf_max(tally->copies, tally->offered + tally->unfit) - (tally->offered + tally->unfit);
    entries->small_bytes += gf_max(tally->bytes, tally->offered_bytes + tally->unfit_bytes) -
                            (tally->offered_bytes + tally->unfit_bytes);
    entries->unfit += tally->unfit;
    entries->unfit_bytes += tally->unfit_bytes;
    return true;
}

static bool put_entry(void *closure, const struct gf_tally *tally)
{
    struct entries *entries = closure;
    if (!tally->bytes)
        return true;
    gf_json_begin(entries->json, tally->name, '{');
    gf_json_size(entries->json, "copies", tally->copies);
    gf_json_size(entries->json, "bytes", tally->bytes);
    gf_json_end(entries->json, '}');
    return add_entry(entries, tally);
}

static void put_copies(struct gf_json *json, const char *key, uint64_t copies, uint64_t bytes)
{
    gf_json_begin(json, key, '{');
    gf_json_size(json, "copies", copies);
    gf_json_size(json, "bytes", bytes);
    gf_json_end(json, '}');
}

static void put_state(struct gf_json *json, const struct gf_transfer_report *transfers)
{
    const struct gf_transfer_state *state = &transfers->state;

    gf_json_known_size(json, "least_bytes", transfers->least);
    gf_json_text(json, "staging_off", state->off);
    gf_json_begin(json, "ring", '{');
    gf_json_int(json, "rings", state->rings);
    gf_json_size(json, "bytes", state->ring_bytes);
    gf_json_size(json, "most_bytes", state->ring_most);
    gf_json_size(json, "limit_bytes", state->ring_limit);
    gf_json_size(json, "grown", transfers->copies.ring_grown);
    gf_json_size(json, "shrunk", transfers->copies.ring_shrunk);
    gf_json_size(json, "stream_waits", transfers->copies.stream_waits);
    gf_pinned_report_put_nodes(json, "by_node", state->ring_held);
    gf_json_end(json, '}');
    gf_json_int(json, "helpers", state->helpers);
}

static void put_saving(struct gf_json *json, const struct gf_transfer_stats *copies)
{
    uint64_t rate_of_pinned;
    const uint64_t saving = gf_transfer_report_saving_ns(copies, &rate_of_pinned);

    gf_json_begin(json, "pinning_at_source", '{');
    gf_json_milli(json, "saves_at_most_s", saving / 1000000);
    if (rate_of_pinned)
        gf_json_milli(json, "pinned_gb_per_s", rate_of_pinned / 1000000);
    else
        gf_json_null(json, "pinned_gb_per_s");
    gf_json_end(json, '}');
}

void gf_transfer_report_put(struct gf_json *json, const struct gf_transfer_report *transfers,
                            gf_tally_each *each_hook)
{
    struct entries entries = {.json = json};

    if (!transfers->known) {
        gf_json_null(json, "transfers");
        return;
    }
    gf_json_begin(json, "transfers", '{');
    put_state(json, transfers);
    put_direction(json, "to_device", &transfers->copies, gf_direction_h2d);
    put_direction(json, "from_device", &transfers->copies, gf_direction_d2h);
    gf_json_begin(json, "entries", '{');
    if (each_hook)
        each_hook(put_entry, &entries);
    gf_json_end(json, '}');
    put_copies(json, "small", entries.small, entries.small_bytes);
    put_copies(json, "unfit", entries.unfit, entries.unfit_bytes);
    put_saving(json, &transfers->copies);
    gf_pinned_report_put(json, &transfers->pinned);
    gf_json_end(json, '}');
}

/* The summary. */

static void say_way(struct gf_words *words, const struct gf_tally_copy *way, const char *how,
                    bool rated, const char **between)
{
    if (!way->calls)
        return;
    gf_say(words, "%s", *between);
    *between = ", ";
    gf_say_bytes(words, way->bytes);
    gf_say(words, " %s", how);
    if (rated && way->timed_ns)
        gf_say(words, " at %llu.%llu GB/s", (unsigned long long)(rate(way) / 1000),
               (unsigned long long)(rate(way) / 100 % 10));
}

static void say_reasons(struct gf_words *words, const struct gf_transfer_report *transfers,
                        enum gf_direction direction)
{
    const char *between = " (", *off = transfers->state.off;

    for (unsigned why = 0; why < gf_forward_count; why++) {
        struct gf_tally_copy way;
        gf_transfer_report_why(&transfers->copies, direction, why, &way);
        if (!way.calls || !is_pageable(why))
            continue;
        if (why == gf_forward_off && off)
            gf_say(words, "%sstaging is off, %s", between, off);
        else
            gf_say(words, "%s%s", between, gf_forward_text(why));
        gf_say(words, ": %llu", (unsigned long long)way.calls);
        between = "; ";
    }
    if (*between == ';')
        gf_say(words, ")");
}

static void say_direction(struct gf_words *words, const struct gf_transfer_report *transfers,
                          enum gf_direction direction, const char *what, const char **between)
{
    const struct gf_transfer_stats *copies = &transfers->copies;
    const char *first = *between;
    struct gf_tally_copy staged, pinned, driver;

    gf_transfer_report_staged(copies, direction, &staged);
    gf_transfer_report_why(copies, direction, gf_forward_pinned, &pinned);
    gf_transfer_report_driver(copies, direction, &driver);
    if (!staged.calls && !pinned.calls && !driver.calls)
        return;
    gf_say(words, "%s%s ", first, what);
    *between = "; ";
    first = "";
    say_way(words, &staged, "staged", true, &first);
    say_way(words, &pinned, "from or to pinned memory", false, &first);
    say_way(words, &driver, "by the driver", true, &first);
    say_reasons(words, transfers, direction);
}

/* Copies that nobody looked at: a program that makes no other shall not be told nothing. */
static void say_small(struct gf_words *words, const struct gf_transfer_report *transfers,
                      gf_tally_each *each_hook, const char *between)
{
    struct entries entries = {0};

    if (each_hook)
        each_hook(add_entry, &entries);
    if (entries.small_bytes < SMALL_TOLD)
        return;
    gf_say(words, "%s", between);
    gf_say_bytes(words, entries.small_bytes);
    gf_say(words, " by the driver in %llu copies", (unsigned long long)entries.small);
    if (transfers->least == SIZE_MAX)
        gf_say(words, " (staging is off%s%s)", transfers->state.off ? ", " : "",
               transfers->state.off ? transfers->state.off : "");
    else if (transfers->least < (1 << 20))
        gf_say(words, " of less than %llu KiB", (unsigned long long)transfers->least >> 10);
    else
        gf_say(words, " of less than %llu MiB", (unsigned long long)transfers->least >> 20);
}

static void say_ring(struct gf_words *words, const struct gf_transfer_report *transfers)
{
    const uint64_t waits = transfers->copies.stream_waits;
    if (!transfers->state.ring_most)
        return;
    gf_say(words, "; ring of ");
    gf_say_bytes(words, transfers->state.ring_most);
    if (waits)
        gf_say(words, ", too small for %llu", (unsigned long long)waits);
}

void gf_transfer_report_say(const struct gf_transfer_report *transfers, gf_tally_each *each_hook,
                            char *buf, size_t size)
{
    struct gf_words words = {buf, size, 0};
    const char *between = "";
    uint64_t rate_of_pinned;

    *buf = '\0';
    if (!transfers->known)
        return;
    say_direction(&words, transfers, gf_direction_h2d, "copied to the GPU:", &between);
    say_direction(&words, transfers, gf_direction_d2h, "copied from the GPU:", &between);
    say_small(&words, transfers, each_hook, *between ? between : "copies: ");
    say_ring(&words, transfers);
    const uint64_t ms = gf_transfer_report_saving_ns(&transfers->copies, &rate_of_pinned) / 1000000;
    gf_pinned_report_say(&words, &transfers->pinned);
    if (ms >= 100)
        gf_say(&words, "; pinned at its source, memory would save at most %llu.%llu s",
               (unsigned long long)(ms / 1000), (unsigned long long)(ms / 100 % 10));
}
