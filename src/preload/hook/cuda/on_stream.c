/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of calls that destroy a stream. The sampler must not query a stream that is destroyed,
 * and a capture that began on the stream ends with it.
 */
#include "preload/hook/captures.h"
#include "preload/hook/cuda/entry.h"
#include "preload/hook/submissions.h"

#define DESTROY(symbol)                                                                            \
    CUresult gf_on_##symbol(CUstream hStream)                                                      \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        gf_submissions_unlist(hStream);                                                            \
        const unsigned captures = gf_captures_of_stream(hStream);                                  \
        const CUresult result = real(hStream);                                                     \
        gf_captures_left(captures, result == CUDA_SUCCESS);                                        \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

DESTROY(cuStreamDestroy);
DESTROY(cuStreamDestroy_v2);
