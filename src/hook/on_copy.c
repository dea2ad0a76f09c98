/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear copies between host and device. One that is large enough is offered to the engine, which
 * may do it as the driver would; all others, and what the engine declines, are the driver's, with
 * the caller's own arguments.
 */
#include "hook/offer.h"

#include "base/clock.h"

/* Not inlined: small copies shall not save registers for it. */
__attribute__((noinline)) bool gf_offer_to_engine(struct gf_offer *offer)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = gf_visit_transfer(&visit);
    if (!transfer)
        return false;
    const bool done = transfer->copy(offer->call, &offer->result);
    if (!done)
        offer->since = gf_now_ns();
    gf_visit_end(&visit);
    return done;
}

__attribute__((noinline)) void gf_offer_declined(const struct gf_offer *offer)
{
    struct gf_visit visit;
    const uint64_t ns = gf_now_ns() - offer->since;
    const struct gf_transfer_ops *transfer = gf_visit_transfer(&visit);
    if (!transfer)
        return;
    if (transfer->copy_declined)
        transfer->copy_declined(offer->call, offer->result, ns);
    gf_visit_end(&visit);
}

/* The hook of `symbol`: its parameters, arguments for the driver, and the copy that it asks for. */
#define COPY(symbol, timed, parameters, arguments, ...)                                            \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        struct gf_offer offer;                                                                     \
        const struct gf_copy_call call = {__VA_ARGS__};                                            \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return timed(symbol, call,                                                                 \
                     gf_offer(&offer, gf_hook_##symbol, &call, true)                               \
                         ? offer.result                                                            \
                         : gf_offer_end(&offer, real arguments));                                  \
    }                                                                                              \
    GF_ENTRY(symbol)

#define COPY_ANY(symbol, none)                                                                     \
    COPY(symbol, GF_BLOCKING, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),                \
         (dst, src, ByteCount), gf_copy_any, false, dst, src, ByteCount, none)

#define COPY_ANY_ASYNC(symbol, none)                                                               \
    COPY(symbol, GF_AT_ONCE,                                                                       \
         (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),                   \
         (dst, src, ByteCount, hStream), gf_copy_any, true, dst, src, ByteCount,                   \
         hStream ? hStream : none)

#define COPY_H2D(symbol, none)                                                                     \
    COPY(symbol, GF_BLOCKING, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),      \
         (dstDevice, srcHost, ByteCount), gf_copy_h2d, false, dstDevice, (uintptr_t)srcHost,       \
         ByteCount, none)

#define COPY_H2D_ASYNC(symbol, none)                                                               \
    COPY(symbol, GF_AT_ONCE,                                                                       \
         (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),         \
         (dstDevice, srcHost, ByteCount, hStream), gf_copy_h2d, true, dstDevice,                   \
         (uintptr_t)srcHost, ByteCount, hStream ? hStream : none)

#define COPY_D2H(symbol, none)                                                                     \
    COPY(symbol, GF_BLOCKING, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),            \
         (dstHost, srcDevice, ByteCount), gf_copy_d2h, false, (uintptr_t)dstHost, srcDevice,       \
         ByteCount, none)

#define COPY_D2H_ASYNC(symbol, none)                                                               \
    COPY(symbol, GF_AT_ONCE,                                                                       \
         (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),               \
         (dstHost, srcDevice, ByteCount, hStream), gf_copy_d2h, true, (uintptr_t)dstHost,          \
         srcDevice, ByteCount, hStream ? hStream : none)

COPY_ANY(cuMemcpy, GF_IN_LEGACY);
COPY_ANY(cuMemcpy_ptds, GF_IN_THREAD);
COPY_ANY_ASYNC(cuMemcpyAsync, GF_IN_LEGACY);
COPY_ANY_ASYNC(cuMemcpyAsync_ptsz, GF_IN_THREAD);
COPY_H2D(cuMemcpyHtoD_v2, GF_IN_LEGACY);
COPY_H2D(cuMemcpyHtoD_v2_ptds, GF_IN_THREAD);
COPY_H2D_ASYNC(cuMemcpyHtoDAsync_v2, GF_IN_LEGACY);
COPY_H2D_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, GF_IN_THREAD);
COPY_D2H(cuMemcpyDtoH_v2, GF_IN_LEGACY);
COPY_D2H(cuMemcpyDtoH_v2_ptds, GF_IN_THREAD);
COPY_D2H_ASYNC(cuMemcpyDtoHAsync_v2, GF_IN_LEGACY);
COPY_D2H_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, GF_IN_THREAD);
