/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/onset.h"

#define BINS 64
#define EDGE 6 /* least number of bins before and after the change */
#define LEAST_FACTOR 3
#define MOST_FACTOR 1000
#define LEAST_STALLS 20
#define LEAST_SPAN_S 5

double gf_onset_find(const struct gf_job *job, double from, double to, double *ret_factor)
{
    double sums[BINS] = {0}, total = 0, before = 0, best = 0;
    unsigned at = 0;

    if (job->stall_count < LEAST_STALLS || to - from < LEAST_SPAN_S)
        return 0;
    for (size_t i = 0; i < job->stall_count; i++) {
        const double bin = (job->stalls[i].at - from) / (to - from) * BINS;
        sums[bin > 0 ? (unsigned)gf_min(bin, BINS - 1) : 0] += job->stalls[i].us;
        total += job->stalls[i].us;
    }
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
    return at ? from + (to - from) * at / BINS : 0;
}
