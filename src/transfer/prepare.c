/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/prepare.h"

#include "transfer/context.h"
#include "transfer/ring.h"
#include "transfer/setup.h"
#include "transfer/tell.h"

#include <string.h>

static void tell_start(int error)
{
    if (error)
        gf_transfer_tell(gf_transfer_off, GF_LOG_WARN,
                         "copies are left to the driver: cannot start a thread: %s",
                         strerrordesc_np(error));
}

void gf_prepare_helpers(struct gf_pool *pool)
{
    if (!gf_setup.ask)
        tell_start(gf_pool_start(pool));
    else if (gf_pool_want(pool))
        gf_setup.ask();
}

void gf_prepare_ring(struct gf_ring *ring)
{
    if (gf_setup.ask)
        gf_setup.ask();
    else
        gf_ring_prepare(ring);
}

static void prepare(void *closure, struct gf_context *context)
{
    struct gf_ring *ring = __atomic_load_n(&context->ring, __ATOMIC_ACQUIRE);
    (void)closure;
    if (ring)
        gf_ring_prepare(ring);
}

void gf_prepare(void)
{
    tell_start(gf_pools_start());
    gf_context_each(prepare, NULL);
}
