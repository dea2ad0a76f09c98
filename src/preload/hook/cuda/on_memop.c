/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of operations by which a stream waits for a value in memory, or writes one. */
#include "preload/hook/cuda/submit.h"

#define VALUE(symbol, null_stream, type)                                                           \
    GF_SUBMIT_VISIBLE_HOOK(symbol, stream, null_stream, gf_work_kernel,                            \
                           (CUstream stream, CUdeviceptr addr, type value, unsigned flags),        \
                           (stream, addr, value, flags))
#define VALUE_32(symbol, null_stream) VALUE(symbol, null_stream, cuuint32_t)
#define VALUE_64(symbol, null_stream) VALUE(symbol, null_stream, cuuint64_t)
#define OPERATIONS(symbol, null_stream)                                                            \
    GF_SUBMIT_VISIBLE_HOOK(                                                                        \
        symbol, stream, null_stream, gf_work_kernel,                                               \
        (CUstream stream, unsigned count, CUstreamBatchMemOpParams *paramArray, unsigned flags),   \
        (stream, count, paramArray, flags))

GF_STREAM_PAIR(VALUE_32, cuStreamWaitValue32);
GF_STREAM_PAIR(VALUE_32, cuStreamWaitValue32_v2);
GF_STREAM_PAIR(VALUE_64, cuStreamWaitValue64);
GF_STREAM_PAIR(VALUE_64, cuStreamWaitValue64_v2);
GF_STREAM_PAIR(VALUE_32, cuStreamWriteValue32);
GF_STREAM_PAIR(VALUE_32, cuStreamWriteValue32_v2);
GF_STREAM_PAIR(VALUE_64, cuStreamWriteValue64);
GF_STREAM_PAIR(VALUE_64, cuStreamWriteValue64_v2);
GF_STREAM_PAIR(OPERATIONS, cuStreamBatchMemOp);
GF_STREAM_PAIR(OPERATIONS, cuStreamBatchMemOp_v2);
