/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/shares.h"

#include "base/brief_lock.h"

const char *gf_gpu_state_name(enum gf_gpu_state state)
{
    static const char *const names[] = {
#define GF_STATE(name, words) #name,
#include "abi/reasons.def"
    };
    return names[state];
}

const char *gf_host_cause_name(enum gf_host_cause cause)
{
    static const char *const names[] = {
#define GF_HOST(name, words, meaning, remedy) #name,
#include "abi/reasons.def"
    };
    return names[cause];
}

static void add_ns(_Atomic uint64_t *sum, uint64_t ns)
{
    gf_store_relaxed(sum, gf_load_relaxed(sum) + ns);
}

static void add_state(struct gf_gpu_shares *shares, enum gf_gpu_state state,
                      enum gf_host_cause cause, uint64_t ns)
{
    add_ns(&shares->state_ns[state], ns);
    if (state == gf_gpu_empty)
        add_ns(&shares->cause_ns[cause], ns);
}

static uint64_t whole_ns(const struct gf_gpu_shares *shares)
{
    uint64_t whole = 0;
    for (unsigned i = 0; i < GF_GPU_STATE_COUNT; i++)
        whole += gf_load_relaxed(&shares->state_ns[i]);
    return whole;
}

/* Keeps the present sums in place of the oldest ones, which no reader uses any more. */
static bool mark_if_due(struct gf_gpu_shares *shares)
{
    const uint64_t whole = whole_ns(shares);

    if (whole < gf_max(shares->next_mark_ns, UINT64_C(1000000000)))
        return false;
    const unsigned slot = shares->marks++ % GF_SHARE_MARKS;
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        gf_store_relaxed(&shares->mark[slot].cause_ns[i], gf_load_relaxed(&shares->cause_ns[i]));
    gf_store_relaxed(&shares->mark[slot].ns, whole);
    shares->next_mark_ns = whole + whole / 4;
    return true;
}

#define START_MOST_NS UINT64_C(600000000000) /* later, a start takes a small part of the time */

void gf_gpu_shares_start(struct gf_gpu_shares *shares, struct gf_gpu_start *ret)
{
    const uint64_t most = gf_min(whole_ns(shares) / 2, START_MOST_NS);
    unsigned best = GF_SHARE_MARKS;

    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < GF_SHARE_MARKS; i++) {
        const uint64_t ns = gf_load_relaxed(&shares->mark[i].ns);
        if (ns > ret->ns && ns <= most) {
            ret->ns = ns;
            best = i;
        }
    }
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT && best < GF_SHARE_MARKS; i++)
        ret->cause_ns[i] = gf_load_relaxed(&shares->mark[best].cause_ns[i]);
}

/* Adds the half of the interval before a sample. A sum never decreases, so undecided time waits. */
static void add_before(struct gf_gpu_shares *shares, const struct gf_gpu_sample *sample,
                       uint64_t ns)
{
    if (sample->undecided && sample->state == gf_gpu_empty)
        shares->undecided_ns = ns;
    else
        add_state(shares, sample->state, sample->cause, ns);
}

/*
 * Decides the cause of the last sample's time. If the thread has gone on with something else while
 * the GPU stayed empty, this is the cause.
 */
static void decide(struct gf_gpu_shares *shares, const struct gf_gpu_sample *sample,
                   bool still_empty)
{
    if (shares->last.undecided && still_empty && !sample->late && !sample->undecided)
        shares->last.cause = sample->cause;
    if (shares->undecided_ns)
        add_state(shares, gf_gpu_empty, shares->last.cause, shares->undecided_ns);
    shares->undecided_ns = 0;
}

/*
 * Adds a sample. If the sample is late, the state in the interval before it is unknown. But if
 * nothing was submitted in the interval (quiet), and the GPU was empty before and after it, the GPU
 * was empty all the time.
 */
bool gf_gpu_shares_add(struct gf_gpu_shares *shares, const struct gf_gpu_sample *sample)
{
    const bool still_empty =
        sample->quiet && sample->state == gf_gpu_empty && shares->last.state == gf_gpu_empty;
    decide(shares, sample, still_empty);
    const struct gf_gpu_sample last = shares->last;
    const uint64_t ns = sample->at_ns - last.at_ns;

    shares->last = *sample;
    if (!last.at_ns)
        return false;
    if (still_empty) {
        add_ns(&shares->exact_ns, ns);
        add_state(shares, gf_gpu_empty, sample->late ? sample->cause : last.cause, ns / 2);
        add_before(shares, sample, ns - ns / 2);
    } else if (sample->late) {
        add_state(shares, gf_gpu_unknown, gf_host_other, ns);
        if (sample->cause < GF_LATE_CAUSES)
            add_ns(&shares->late_ns[sample->cause], ns);
    } else {
        add_state(shares, last.state, last.cause, ns / 2);
        add_before(shares, sample, ns - ns / 2);
    }
    add_ns(&shares->samples, 1);
    return mark_if_due(shares);
}

static enum gf_host_cause most_seen(const struct gf_gaps *gaps)
{
    enum gf_host_cause most = gf_host_other;
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        if (gaps->seen[i] > gaps->seen[most])
            most = (enum gf_host_cause)i;
    return most;
}

/*
 * Adds the gap to the list of the longest gaps if it is long enough. If a reader holds the list for
 * too long, the gap is not listed.
 */
static void keep_if_long(struct gf_gaps *gaps, const struct gf_gpu_gap *gap)
{
    if (gap->ns <= gaps->longest[GF_GAPS_LONGEST - 1].ns || !gf_brief_lock(&gaps->locked))
        return;
    unsigned at = GF_GAPS_LONGEST - 1;
    for (; at && gaps->longest[at - 1].ns < gap->ns; at--)
        gaps->longest[at] = gaps->longest[at - 1];
    gaps->longest[at] = *gap;
    gf_store_release(&gaps->locked, false);
}

static void end_gap(struct gf_gaps *gaps, uint64_t now)
{
    const uint64_t stamped = gf_load_acquire(&gaps->shared->ended_ns);
    const uint64_t ended = stamped && stamped < now ? stamped : now;
    const struct gf_gpu_gap gap = {.start_ns = gaps->since_ns,
                                   .ns = ended - gf_min(gaps->since_ns, ended),
                                   .cause = most_seen(gaps),
                                   .ender = stamped ? gf_load_acquire(&gaps->shared->ender) : 0};

    gf_store_release(&gaps->shared->open, false);
    gf_add_relaxed(&gaps->count, 1);
    const uintptr_t python = gap.ender ? gf_load_relaxed(&gaps->shared->python) : 0;
    if (gap.ender)
        gf_store_relaxed(&gaps->last_ender, gap.ender);
    if (python) {
        gf_store_relaxed(&gaps->last_python, python);
        gf_store_relaxed(&gaps->last_python_tid, gap.ender);
    }
    keep_if_long(gaps, &gap);
    gaps->since_ns = 0;
}

/*
 * Begins a gap. Its true start is between the last sample or the end of the previous gap (`after`)
 * and now, so it is set to the middle.
 */
static void begin_gap(struct gf_gaps *gaps, uint64_t after, uint64_t now)
{
    gaps->since_ns = after ? after + (now - after) / 2 : now;
    memset(gaps->seen, 0, sizeof(gaps->seen));
    gf_store_relaxed(&gaps->shared->ended_ns, 0);
    gf_store_relaxed(&gaps->shared->ender, 0);
    gf_store_release(&gaps->shared->open, true);
}

void gf_gaps_see(struct gf_gaps *gaps, uint64_t previous_ns, uint64_t now, bool known, bool empty)
{
    const uint64_t ended = gaps->since_ns ? gf_load_acquire(&gaps->shared->ended_ns) : 0;

    if (gaps->since_ns && (ended || !known || !empty))
        end_gap(gaps, now);
    if (known && empty && !gaps->since_ns)
        begin_gap(gaps, gf_max(ended, previous_ns), now);
    gf_store_relaxed(&gaps->open_ns, gaps->since_ns ? now - gaps->since_ns : 0);
}

void gf_gaps_cause(struct gf_gaps *gaps, enum gf_host_cause cause)
{
    if (!gaps->since_ns)
        return;
    gaps->seen[cause]++;
    gf_store_relaxed(&gaps->open_most, most_seen(gaps));
}

void gf_gaps_read(struct gf_gaps *gaps, struct gf_gpu_gap ret[GF_GAPS_LONGEST],
                  struct gf_gpu_gap *ret_open)
{
    memset(ret, 0, sizeof(*ret) * GF_GAPS_LONGEST);
    *ret_open = (struct gf_gpu_gap){.ns = gf_load_relaxed(&gaps->open_ns),
                                    .cause = gf_load_relaxed(&gaps->open_most)};
    if (!gf_brief_lock(&gaps->locked))
        return;
    memcpy(ret, gaps->longest, sizeof(gaps->longest));
    gf_store_release(&gaps->locked, false);
}

#define OLD_NS UINT64_C(60000000000) /* a graph without a launch for this time leaves the table */

static struct {
    uint64_t launches; /* at the last sample */
    uint64_t at_ns;    /* when a sample last saw a launch */
    bool latest;       /* the last sample saw a launch */
} seen[GF_GRAPH_SLOTS];

void gf_graph_steps_see(struct gf_submit_table *table, uint64_t before_ns, uint64_t now,
                        gf_graph_steps_fn *launched)
{
    for (unsigned i = 0; i < GF_GRAPH_SLOTS; i++) {
        struct gf_graph_slot *slot = &table->graphs[i];
        const uintptr_t graph = gf_load_relaxed(&slot->graph);
        const uint64_t launches = gf_load_relaxed(&slot->launches);

        if (launches != seen[i].launches) {
            seen[i].launches = launches;
            seen[i].at_ns = now;
            /* The period of launches in each sample would be the samples' own. */
            if (graph && before_ns && !seen[i].latest)
                launched(before_ns + (now - before_ns) / 2, graph);
            seen[i].latest = true;
            continue;
        }
        seen[i].latest = false;
        if (graph && now - seen[i].at_ns > OLD_NS) {
            /* A hook may just count a launch; then a later graph gets it. */
            gf_store_relaxed(&slot->graph, 0);
        }
    }
}
