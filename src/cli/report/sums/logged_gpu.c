/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/sums/logged_gpu.h"

#include "base/base.h"

#include <string.h>

/* The share of the interval that is after job->since. */
static double part_of(const struct gf_job *job, const struct gf_activity *activity)
{
    const double from = gf_max(activity->from, job->since);

    return from < activity->to ? (activity->to - from) / (activity->to - activity->from) : 0;
}

static double time_of(const struct gf_activity *activity, const char *state)
{
    for (unsigned i = 0; i < GF_ACTIVITY_STATES; i++)
        if (strcmp(gf_activity_states[i], state) == 0)
            return activity->state_s[i];
    return 0;
}

void gf_logged_gpu_add(struct gf_logged_gpu *sum, const struct gf_job *job,
                       const struct gf_activity *activity)
{
    const double part = part_of(job, activity);
    double s = 0;

    for (unsigned i = 0; i < GF_ACTIVITY_STATES; i++)
        s += part * activity->state_s[i];
    if (s <= 0)
        return;
    sum->is_several |= sum->s > 0 && sum->process != activity->process;
    sum->process = activity->process;
    sum->s += s;
    sum->empty_s += part * time_of(activity, "empty");
    sum->copying_s += part * time_of(activity, "copying");
}
