/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks of copies share. */
#ifndef GF_HOOK_OFFER_H
#define GF_HOOK_OFFER_H

#include "hook/on_cuda.h"
#include "hook/visit.h"
#include "hook/watch.h"

/* The stream that 0 means in an entry of either flavour. */
#define GF_IN_LEGACY CU_STREAM_LEGACY
#define GF_IN_THREAD CU_STREAM_PER_THREAD

/* The size from which copies are worth an engine's while; SIZE_MAX while there is none. */
static inline size_t gf_offer_least(void)
{
    const struct gf_engine *engine = gf_engine();
    return engine && engine->transfer ? engine->transfer->copy_least : SIZE_MAX;
}

/* A copy on its way: to the engine, and to the driver if that declines. */
struct gf_offer {
    const struct gf_copy_call *call;
    CUresult result; /* done: the driver's for it; declined: the engine's word */
    uint64_t since;  /* the driver's call begins; 0: the engine was not asked */
};

/* True: done. No copy smaller than gf_offer_least. */
bool gf_offer_to_engine(struct gf_offer *offer);
void gf_offer_declined(const struct gf_offer *offer);

/* Counts the copy too. line: it is one that may be staged at all. */
static inline bool gf_offer(struct gf_offer *ret, enum gf_hook hook,
                            const struct gf_copy_call *call, bool line)
{
    ret->call = call;
    ret->since = 0;
    if (gf_thread.guard)
        return false;
    gf_count_bytes(hook, call->bytes);
    if (gf_likely(call->bytes < gf_offer_least()))
        return false;
    gf_count_large(hook, call->bytes, line);
    return line && gf_offer_to_engine(ret);
}

/* After the driver's call for what was not done; passes its result on. */
static inline CUresult gf_offer_end(const struct gf_offer *offer, CUresult result)
{
    if (gf_unlikely(offer->since))
        gf_offer_declined(offer);
    return result;
}

/* How a copy that `call` describes is made: an asynchronous one waits for nothing. */
#define GF_AT_ONCE(symbol, call, copy) (copy)
#define GF_BLOCKING(symbol, call, copy)                                                            \
    GF_WAITED(gf_timed_driver_copy, #symbol, (call).bytes, gf_idle_copy((call).stream), copy)

#endif
