/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/attach/originals.h"

#include "base/atomic.h"
#include "base/loader.h"
#include "config/startup_env.h"

static struct gf_originals originals;
static _Atomic bool resolved;

/*
 * The first search takes no lock: another thread may have held the loader's lock when this process was
 * forked. If this library was opened by dlopen, it follows libc in search order. A search after this
 * library then finds nothing, so the first definition is used.
 */
void *gf_originals_find(const char *name)
{
    void *const found = gf_libc_early_next(name);
    struct gf_symbol next;

    if (found)
        return found;
    if (gf_symbol_find(name, &originals, &next) || gf_symbol_find(name, NULL, &next))
        return next.address;
    return NULL;
}

/*
 * Threads that run this at the same time store the same values, so other threads always read valid
 * values.
 */
static GF_COLD void resolve_originals(void)
{
    gf_libc_bind();
    const uint64_t signals = gf_symbols_block_signals();
    const struct gf_originals found = {
#define GF_LIBC(symbol) .symbol = (__typeof__(originals.symbol))gf_originals_find(#symbol),
#include "abi/hooks.def"
    };
    gf_symbols_unblock_signals(signals);
    originals = found;
    gf_store_release(&resolved, true);
}

const struct gf_originals *gf_originals(void)
{
    if (gf_unlikely(!gf_load_acquire(&resolved)))
        resolve_originals();
    return &originals;
}

bool gf_duplicate_load_passes(void)
{
    static _Atomic int known; /* 1: no, 2: yes; every thread stores the same value */
    int answer = gf_load_relaxed(&known);

    if (gf_unlikely(!answer)) {
        answer = gf_startup_env_options()->mode == gf_mode_off || gf_own_image_before(&originals)
                     ? 2
                     : 1;
        gf_store_relaxed(&known, answer);
    }
    return answer == 2;
}

bool gf_duplicate_load_find(struct gf_symbol *ret_this, struct gf_symbol *ret_second)
{
    return gf_symbol_holder(&originals, ret_this) && gf_own_image_behind(&originals, ret_second);
}
