/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/copy_explain.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "base/log.h"

/*
 * The number of copies so far, by direction, kind of call and outcome. gf_bypass_none: the copy was
 * staged.
 */
static _Atomic unsigned seen[gf_direction_count][2][gf_bypass_count + 1];

/*
 * Counts a copy, and returns its number among the copies of the same direction, kind and outcome.
 * 0: no line is written for this copy.
 */
static unsigned number_of(struct gf_copy_kind kind, enum gf_bypass outcome)
{
    if (!gf_log_wants_area(gf_log_area_copy))
        return 0;
    const unsigned number = 1 + gf_add_relaxed(&seen[kind.direction][kind.async][outcome], 1);
    return number & (number - 1) ? 0 : number;
}

static const char *way_of(struct gf_copy_kind kind)
{
    static const char *const ways[gf_direction_count][2] = {
        [gf_direction_h2d] = {"synchronous, to the GPU", "asynchronous, to the GPU"},
        [gf_direction_d2h] = {"synchronous, from the GPU", "asynchronous, from the GPU"},
    };
    return ways[kind.direction][kind.async];
}

void gf_copy_explain_start(const char *off, const size_t least[gf_direction_count])
{
    if (off)
        gf_log_explain(gf_log_area_copy, "staging is off: %s", off);
    else
        gf_log_explain(
            gf_log_area_copy,
            "with four or more copying threads, copies to the GPU are staged if they have at least "
            "%zu bytes, copies from the GPU if they have at least %zu bytes",
            least[gf_direction_h2d], least[gf_direction_d2h]);
}

/* Writes "are staged from 8388608 bytes on", or "are not staged". */
static void print_least(char *buf, size_t size, size_t least)
{
    if (least == SIZE_MAX)
        gf_fmt(buf, size, "are not staged");
    else
        gf_fmt(buf, size, "are staged from %zu bytes on", least);
}

void gf_copy_explain_threads(unsigned threads, const size_t least[gf_direction_count])
{
    char to[48], from[48];

    if (!gf_log_wants_area(gf_log_area_copy))
        return;
    print_least(to, sizeof(to), least[gf_direction_h2d]);
    print_least(from, sizeof(from), least[gf_direction_d2h]);
    gf_log_explain(gf_log_area_copy,
                   "a GPU has %u copying thread%s: copies to it %s, copies from it %s", threads,
                   threads == 1 ? "" : "s", to, from);
}

void gf_copy_explain_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    const unsigned number = number_of(kind, gf_bypass_none);
    if (number)
        gf_log_explain(gf_log_area_copy, "%s, %llu bytes: staged in %llu us (copy %u of this kind)",
                       way_of(kind), (unsigned long long)bytes, (unsigned long long)ns / 1000,
                       number);
}

void gf_copy_explain_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes)
{
    const unsigned number = number_of(kind, reason);
    if (number)
        gf_log_explain(gf_log_area_copy,
                       "%s, %llu bytes: not staged, reason %s: %s (copy %u of this kind)",
                       way_of(kind), (unsigned long long)bytes, gf_bypass_name(reason),
                       gf_bypass_text(reason), number);
}
