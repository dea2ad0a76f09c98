/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/allowed.h"

#include "engine/machine/child_call.h"
#include "engine/machine/tasks.h"
#include "os/permit.h"

#include <errno.h>
#include <string.h>

struct query {
    struct gf_cpus allowed;
    int error;
};

static int query_in_child(void *arg)
{
    struct query *query = arg;
    struct gf_cpus all;

    memset(&all, 0xff, sizeof(all));
    query->error = gf_tasks_set_mask(0, &all);
    if (!query->error)
        query->error = gf_tasks_get_mask(0, &query->allowed);
    return 0;
}

int gf_allowed_cpus(struct gf_cpus *ret)
{
    struct query query = {.error = -EAGAIN};

    if (!gf_permit(gf_permit_set_affinity))
        return -EPERM;
    const int failed = gf_child_call(query_in_child, &query);
    if (failed || query.error)
        return failed ? failed : query.error;
    *ret = query.allowed;
    return 0;
}
