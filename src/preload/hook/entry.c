/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/entry.h"

#include "base/loader.h"
#include "preload/attach/originals.h"
#include "preload/malloc/start.h"

static uintptr_t address_at(const struct gf_entry *entry, int32_t offset)
{
    return (uintptr_t)entry + (uintptr_t)(intptr_t)offset;
}

/*
 * Whether the hook may run at this time. Hooks of the kind GF_ENTRY_ALWAYS use no thread-local
 * variables and no heap, so they may run as soon as this library is relocated.
 */
static bool serves(const struct gf_entry *entry)
{
    switch (entry->kind) {
    case GF_ENTRY_HOOK:
        return gf_start_loaded();
    case GF_ENTRY_ALWAYS:
        return gf_libc_relocated();
    default:
        return true;
    }
}

void *gf_entry_open(const struct gf_entry *entry)
{
    void *const hook = (void *)address_at(entry, entry->hook);
    void *original = NULL;

    if (!serves(entry)) {
        original = gf_libc_early_next(entry->name);
        return original ? original : hook;
    }
    gf_libc_bind();
    if (entry->kind == GF_ENTRY_HOOK && gf_duplicate_load_passes())
        original = gf_originals_find(entry->name);
    void *const target = original ? original : hook;
    __atomic_store_n((void **)address_at(entry, entry->target), target, __ATOMIC_RELEASE);
    return target;
}
