/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/prepare.h"

#include "base/atomic.h"
#include "engine/transfer/setup.h"

/*
 * Whether a request is deferred. The next thread whose driver call ends sends the request, because
 * the thread that deferred it may make no further call.
 */
static _Atomic bool deferred;

static void notify_failure(int error)
{
    if (error)
        gf_transfer_notify(gf_transfer_off, GF_LOG_WARN,
                           "cannot start a thread: %s; copies are left to the driver",
                           strerrordesc_np(error));
}

bool gf_prepare_request(enum gf_when when)
{
    if (!gf_setup.request_prepare)
        return false;
    if (when == gf_when_after_call)
        gf_store_release(&deferred, true);
    else
        gf_setup.request_prepare();
    return true;
}

void gf_prepare_deferred(void)
{
    if (gf_unlikely(gf_load_relaxed(&deferred)) && gf_exchange_acq_rel(&deferred, false))
        gf_setup.request_prepare();
}

void gf_prepare_helpers(struct gf_pool *pool, enum gf_when when)
{
    if (!gf_setup.request_prepare)
        notify_failure(gf_pool_start(pool));
    else if (gf_pool_request(pool))
        gf_prepare_request(when);
}

void gf_prepare_pools(void)
{
    notify_failure(gf_pools_start_requested());
}
