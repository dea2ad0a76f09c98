/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: maps names and versions to exports, by entries.def. */
#include "sim.h"

#include <string.h>

enum flavour { any, thread };

#define SIM_ENTRY(exported, name, version, flavour)                                                \
    CUresult exported##_entry(void) __asm__(#exported);
#include "entries.def"
#undef SIM_ENTRY

static const struct entry {
    const char *exported, *name;
    int version;
    enum flavour flavour;
    void *address;
} entries[] = {
#define SIM_ENTRY(exported, name, version, flavour)                                                \
    {#exported, #name, version, flavour, (void *)exported##_entry},
#include "entries.def"
#undef SIM_ENTRY
};

#define ENTRIES (sizeof entries / sizeof entries[0])

/*
 * Returns whether a name has a per-thread twin. A request for the per-thread flavour then finds
 * only the twin.
 */
static bool has_twin(const char *symbol)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (entries[i].flavour == thread && strcmp(entries[i].name, symbol) == 0)
            return true;
    return false;
}

static CUresult find(const char *symbol, void **pfn, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
    const struct entry *best = NULL;
    bool seen = false;
    if (version > SIM_DRIVER_VERSION ||
        (flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
        return CUDA_ERROR_INVALID_VALUE;
    if (version == -1) /* like the driver, takes -1 as any version */
        version = SIM_DRIVER_VERSION;
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && has_twin(symbol);
    for (size_t i = 0; i < ENTRIES; i++) {
        const struct entry *e = &entries[i];
        if (strcmp(e->name, symbol) != 0 || (e->flavour == thread) != per_thread)
            continue;
        seen = true;
        if (e->version > version)
            continue;
        if (!best || e->version > best->version)
            best = e;
    }
    *pfn = best ? best->address : NULL;
    if (status)
        *status = best   ? CU_GET_PROC_ADDRESS_SUCCESS
                  : seen ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    SIM_ENTER("cuGetProcAddress_v2");
    return find(symbol, pfn, version, flags, status);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    SIM_ENTER("cuGetProcAddress");
    void *found = NULL;
    CUresult result = find(symbol, &found, version, flags, NULL);
    if (!result && !found)
        return CUDA_ERROR_NOT_FOUND;
    if (!result)
        *pfn = found;
    return result;
}
