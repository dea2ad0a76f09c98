/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in which the program waits for the GPU. A wait is what they are for: it is measured for the
 * report, and an event only where there was nothing to wait for. No call tells that of a whole context.
 * Freeing device memory waits too, and nobody expects that.
 */
#include "hook/on_cuda.h"

#include "hook/watch.h"

CUresult gf_on_cuMemFree_v2(CUdeviceptr dptr)
{
    __typeof__(cuMemFree_v2) *real = GF_REAL(cuMemFree_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_free, "cuMemFree_v2", 0, NULL, real(dptr));
}
GF_ENTRY(cuMemFree_v2);

CUresult gf_on_cuCtxSynchronize(void)
{
    __typeof__(cuCtxSynchronize) *real = GF_REAL(cuCtxSynchronize);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_wait, "cuCtxSynchronize", 0, NULL, real());
}
GF_ENTRY(cuCtxSynchronize);

CUresult gf_on_cuStreamSynchronize(CUstream hStream)
{
    __typeof__(cuStreamSynchronize) *real = GF_REAL(cuStreamSynchronize);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_WAITED(gf_timed_driver_wait, "cuStreamSynchronize", 0,
                     gf_idle_stream(hStream ? hStream : CU_STREAM_LEGACY), real(hStream));
}
GF_ENTRY(cuStreamSynchronize);

CUresult gf_on_cuStreamSynchronize_ptsz(CUstream hStream)
{
    __typeof__(cuStreamSynchronize_ptsz) *real = GF_REAL(cuStreamSynchronize_ptsz);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_WAITED(gf_timed_driver_wait, "cuStreamSynchronize", 0,
                     gf_idle_stream(hStream ? hStream : CU_STREAM_PER_THREAD), real(hStream));
}
GF_ENTRY(cuStreamSynchronize_ptsz);

CUresult gf_on_cuEventSynchronize(CUevent hEvent)
{
    __typeof__(cuEventSynchronize) *real = GF_REAL(cuEventSynchronize);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_WAITED(gf_timed_driver_wait, "cuEventSynchronize", 0, gf_idle_event(hEvent),
                     real(hEvent));
}
GF_ENTRY(cuEventSynchronize);
