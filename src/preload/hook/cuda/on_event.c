/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of calls that record an event. To the threads that wait for the event, a copy of another
 * thread is complete or has not begun, so the event must not get between the copy's DMAs.
 */
#include "preload/hook/cuda/submit.h"

#define RECORD(symbol, null_stream)                                                                \
    CUresult gf_on_##symbol(CUevent hEvent, CUstream hStream)                                      \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return GF_ORDERED(hStream ? hStream : (null_stream), real(hEvent, hStream));               \
    }                                                                                              \
    GF_ENTRY(symbol)

#define RECORD_FLAGS(symbol, null_stream)                                                          \
    CUresult gf_on_##symbol(CUevent hEvent, CUstream hStream, unsigned int flags)                  \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return GF_ORDERED(hStream ? hStream : (null_stream), real(hEvent, hStream, flags));        \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(RECORD, cuEventRecord);
GF_STREAM_PAIR(RECORD_FLAGS, cuEventRecordWithFlags);
