/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/sums/onset.h"

#include "cli/report/sums/tally.h"

#define BINS 64
#define EDGE 6 /* least number of bins before and after the change */
#define LEAST_FACTOR 3
#define MOST_FACTOR 1000
#define LEAST_STALLS 20u
#define LEAST_SPAN_S 2

/* Returns the index of the first bin after the change; 0 if there is no change. */
static unsigned split_of(const double *sums, double total, double *ret_factor)
{
    double before = 0, best = 0;
    unsigned at = 0;

    for (unsigned i = 1; i <= BINS - EDGE; i++) {
        before += sums[i - 1];
        if (i < EDGE)
            continue;
        const double early = before / i, late = (total - before) / (BINS - i);
        /* Chooses the split that explains most of the variance between bins (least squares). */
        const double gain = (late - early) * (late - early) * i * (BINS - i);
        if (late > LEAST_FACTOR * early && gain > best) {
            best = gain;
            at = i;
            *ret_factor = late > MOST_FACTOR * early ? MOST_FACTOR : late / early;
        }
    }
    return at;
}

/*
 * Sets step and rank to those of the first stall at the call site. Only stalls near the change are
 * considered, because the time of the change is known only to the length of one bin.
 */
static void find_step(const struct gf_job *job, double bin_s, int64_t site, struct gf_onset *ret)
{
    const struct gf_stall *first = NULL;

    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        if (gf_tally_key(job, stall, GF_BY_SITE) == site && stall->at >= ret->at - bin_s &&
            stall->at <= ret->at + 2 * bin_s && (!first || stall->at < first->at))
            first = stall;
    }
    if (!first)
        return;
    ret->step = first->step;
    ret->rank = job->processes[first->process].rank;
}

struct gf_onset gf_onset_find(const struct gf_job *job, double from, double to, int64_t site)
{
    struct gf_onset ret = {.step = GF_NO_STEP, .rank = -1};
    double sums[BINS] = {0}, total = 0;
    unsigned count = 0;

    if (to - from < LEAST_SPAN_S)
        return ret;
    for (size_t i = 0; i < job->stall_count; i++) {
        const double bin = (job->stalls[i].at - from) / (to - from) * BINS;
        if (bin < 0 || bin > BINS)
            continue;
        sums[(unsigned)gf_min(bin, BINS - 1)] += job->stalls[i].us;
        total += job->stalls[i].us;
        count++;
    }
    const unsigned at = count < LEAST_STALLS ? 0 : split_of(sums, total, &ret.factor);
    if (at) {
        ret.at = from + (to - from) * at / BINS;
        find_step(job, (to - from) / BINS, site, &ret);
    }
    return ret;
}
