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

static bool put_off; /* atomic: something was asked for that our own thread has not been told of */

static void ask(enum gf_when when)
{
    if (when == gf_when_behind)
        __atomic_store_n(&put_off, true, __ATOMIC_RELEASE);
    else
        gf_setup.ask();
}

/* Not by the copy that put it off alone: that may never come here. */
void gf_prepare_behind(void)
{
    if (gf_unlikely(__atomic_load_n(&put_off, __ATOMIC_RELAXED)) &&
        __atomic_exchange_n(&put_off, false, __ATOMIC_ACQ_REL))
        gf_setup.ask();
}

void gf_prepare_helpers(struct gf_pool *pool, enum gf_when when)
{
    if (!gf_setup.ask)
        tell_start(gf_pool_start(pool));
    else if (gf_pool_want(pool))
        ask(when);
}

void gf_prepare_ring(struct gf_ring *ring, enum gf_when when)
{
    if (gf_setup.ask)
        ask(when);
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
