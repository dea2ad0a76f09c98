/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/originals/originals.h"

#include "base/atomic.h"
#include "base/loader.h"
#include "base/symbols.h"

static struct gf_originals originals;
static _Atomic bool resolved;

/*
 * If this library was opened by dlopen, it follows libc in search order. A search after this
 * library then finds nothing, so the first definition is used.
 */
void *gf_originals_find(const char *name)
{
    struct gf_symbol next;
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
    const struct gf_originals found = {
#define GF_LIBC(symbol) .symbol = (__typeof__(symbol) *)gf_originals_find(#symbol),
#include "abi/hooks.def"
    };
    originals = found;
    gf_store_release(&resolved, true);
}

const struct gf_originals *gf_originals(void)
{
    if (gf_unlikely(!gf_load_acquire(&resolved)))
        resolve_originals();
    return &originals;
}
