/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/resolve/hook_table.h"

#include "config/startup_env.h"
#include "preload/hook/cuda/entry.h"
#include "preload/hook/hook_thread.h"
#include "preload/hook/originals/duplicate_load.h"

#include <string.h>

static const struct hooked {
    const char *symbol;
    void *hook;
    size_t offset; /* offset of the driver's function in struct gf_cuda */
    bool submits;  /* hooked only for GPU time, and for copies that hold their stream */
} hooked[] = {
#define GF_CU(symbol) {#symbol, (void *)gf_on_##symbol, offsetof(struct gf_cuda, symbol), false},
#define GF_CU_SUBMIT(symbol)                                                                       \
    {#symbol, (void *)gf_on_##symbol, offsetof(struct gf_cuda, symbol), true},
#include "abi/hooks.def"
};

static void *original_of(const struct gf_driver *driver, const struct hooked *entry)
{
    return *(void *const *)((const char *)&driver->functions + entry->offset);
}

static bool ends_in(const char *symbol, size_t length, const char *end)
{
    return length > strlen(end) && memcmp(symbol + length - strlen(end), end, strlen(end)) == 0;
}

/*
 * Returns the length of the part of a function's name that determines its parameters. For example,
 * cuMemAllocAsync_ptsz differs from cuMemAllocAsync only in the default stream, and cuCtxDestroy_v2
 * differs from cuCtxDestroy only in its effects on other threads.
 */
static size_t stem_length(const char *symbol)
{
    static const char *const alike[] = {"cuStreamDestroy_v2", "cuCtxDestroy_v2",
                                        "cuDevicePrimaryCtxRelease_v2",
                                        "cuDevicePrimaryCtxReset_v2", "cuMemHostRegister_v2"};
    const size_t length = strlen(symbol);

    if (ends_in(symbol, length, "_ptsz") || ends_in(symbol, length, "_ptds"))
        return length - 5;
    for (size_t i = 0; i < GF_ARRAY_LEN(alike); i++)
        if (strcmp(symbol, alike[i]) == 0)
            return length - 3;
    return length;
}

static bool have_same_stem(const struct hooked *a, const struct hooked *b)
{
    const size_t length = stem_length(a->symbol);
    return length == stem_length(b->symbol) && memcmp(a->symbol, b->symbol, length) == 0;
}

static bool needs_submissions(void)
{
    const struct gf_options *options = gf_startup_env_options();
    return options->gpu_time || (options->stage != gf_stage_off && options->mode == gf_mode_on);
}

/*
 * Several functions may have the same address. If they have the same parameters, the address gets
 * the hook of the first of them. Otherwise the address gets no hook, because it is a stub for
 * functions that the driver does not support.
 */
void *gf_hook_table_find(const struct gf_driver *driver, const void *address)
{
    const struct hooked *found = NULL;

    /* Addresses in the libcuda behind a shim get no hook, because only the shim calls them. */
    if (!driver || (uintptr_t)address - driver->start >= driver->end - driver->start)
        return NULL;
    for (size_t i = 0; i < GF_ARRAY_LEN(hooked); i++) {
        if (original_of(driver, &hooked[i]) != address)
            continue;
        if (found && !have_same_stem(found, &hooked[i]))
            return NULL;
        if (!found)
            found = &hooked[i];
    }
    return found && (!found->submits || needs_submissions()) ? found->hook : NULL;
}

bool gf_hook_table_contains(const void *address)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(hooked); i++)
        if (hooked[i].hook == address)
            return true;
    return false;
}

/*
 * Called after the driver has looked up the caller's name, version and flags, so a function that
 * the driver lacks stays missing. The address that the driver returned selects the hook.
 */
static CUresult substitute_hook(CUresult result, void **pfn)
{
    if (result != CUDA_SUCCESS || !pfn || !*pfn || gf_thread.guard || gf_thread.in_driver ||
        gf_duplicate_load_passes())
        return result;
    void *hook = gf_hook_table_find(gf_driver(), *pfn);
    if (hook)
        *pfn = hook;
    return result;
}

CUresult gf_on_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    __typeof__(cuGetProcAddress) *real = GF_REAL(cuGetProcAddress);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return substitute_hook(real(symbol, pfn, cudaVersion, flags), pfn);
}
GF_ENTRY(cuGetProcAddress);

#define RESOLVER(name)                                                                             \
    CUresult gf_on_##name(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,       \
                          CUdriverProcAddressQueryResult *symbolStatus)                            \
    {                                                                                              \
        __typeof__(name) *real = GF_REAL(name);                                                    \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return substitute_hook(real(symbol, pfn, cudaVersion, flags, symbolStatus), pfn);          \
    }                                                                                              \
    GF_ENTRY(name)

RESOLVER(cuGetProcAddress_v2);
RESOLVER(cuGetProcAddress_v2_ptsz);
