/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/sums/recent_gpu.h"

#include "base/base.h"

#include <string.h>

void gf_recent_gpu_add(struct gf_recent_gpu *sum, const struct gf_job *job,
                       const struct gf_activity *activity)
{
    if (job->since <= 0 || activity->to <= job->since || activity->to <= activity->from)
        return;
    const double part =
        (activity->to - gf_max(activity->from, job->since)) / (activity->to - activity->from);
    for (unsigned i = 0; i < GF_ACTIVITY_STATES; i++) {
        const double s = part * activity->state_s[i];
        sum->s += s;
        if (strcmp(gf_activity_states[i], "empty") == 0)
            sum->empty_s += s;
        else if (strcmp(gf_activity_states[i], "copying") == 0)
            sum->copying_s += s;
    }
}
