/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own resolver, in its three exported forms. The driver answers first, for the name,
 * version and flags that the caller gave, so what the installed driver lacks stays lacking; then
 * the address decides. Each form is one of the addresses itself: asked for cuGetProcAddress, the
 * driver gives one of its own, and the hook of exactly that one comes back.
 */
#include "hook/on_cuda.h"
#include "hook/second.h"
#include "hook/thread.h"

static CUresult route(CUresult result, void **pfn)
{
    if (result != CUDA_SUCCESS || !pfn || !*pfn || gf_thread.guard || gf_thread.in_driver || gf_stays_out())
        return result;
    void *hook = gf_routes_substitute(gf_routes(), *pfn);
    if (hook)
        *pfn = hook;
    return result;
}

CUresult gf_on_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    __typeof__(cuGetProcAddress) *real = GF_REAL(cuGetProcAddress);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return route(real(symbol, pfn, cudaVersion, flags), pfn);
}
GF_ENTRY(cuGetProcAddress);

CUresult gf_on_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                   cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
    __typeof__(cuGetProcAddress_v2) *real = GF_REAL(cuGetProcAddress_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return route(real(symbol, pfn, cudaVersion, flags, symbolStatus), pfn);
}
GF_ENTRY(cuGetProcAddress_v2);

CUresult gf_on_cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion,
                                        cuuint64_t flags,
                                        CUdriverProcAddressQueryResult *symbolStatus)
{
    __typeof__(cuGetProcAddress_v2_ptsz) *real = GF_REAL(cuGetProcAddress_v2_ptsz);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return route(real(symbol, pfn, cudaVersion, flags, symbolStatus), pfn);
}
GF_ENTRY(cuGetProcAddress_v2_ptsz);
