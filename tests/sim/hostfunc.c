/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on streams other than copies: host functions, callbacks, and values that a stream writes or
 * waits for.
 */
#include "sim.h"

#include <stdlib.h>

static void call(struct sim_op *op)
{
    CUresult fault = sim_fault("hostfunc");
    if (fault)
        sim_break(op->context, fault);
    else
        ((CUhostFn)(uintptr_t)op->payload[0])((void *)(uintptr_t)op->payload[1]);
}

struct sim_op *sim_host_op(CUhostFn function, void *data)
{
    struct sim_op *op = sim_op_new(call, 2 * sizeof op->payload[0]);
    op->host = true;
    op->payload[0] = (uintptr_t)function;
    op->payload[1] = (uintptr_t)data;
    return op;
}

static CUresult launch(bool per_thread, CUstream s, CUhostFn function, void *data)
{
    struct sim_stream *stream;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    result = sim_issue(stream, CU_GRAPH_NODE_TYPE_HOST, sim_host_op(function, data), NULL);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuLaunchHostFunc, _ptsz, launch, (CUstream s, CUhostFn function, void *data),
          (s, function, data))

/* The mode says how the driver waits for earlier work, which makes no difference here. */
static CUresult launch_v2(bool per_thread, CUstream s, CUhostFn function, void *data, unsigned mode)
{
    (void)mode;
    return launch(per_thread, s, function, data);
}

SIM_TWINS(cuLaunchHostFunc_v2, _ptsz, launch_v2,
          (CUstream s, CUhostFn function, void *data, unsigned mode), (s, function, data, mode))

static void call_back(struct sim_op *op)
{
    ((CUstreamCallback)(uintptr_t)op->payload[0])((CUstream)(uintptr_t)op->payload[1],
                                                  op->context->sticky,
                                                  (void *)(uintptr_t)op->payload[2]);
}

static CUresult add_callback(bool per_thread, CUstream s, CUstreamCallback function, void *data,
                             unsigned flags)
{
    struct sim_stream *stream;
    if (!function || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    if (stream->capture) {
        result = sim_capture_refuses(stream);
    } else {
        struct sim_op *op = sim_op_new(call_back, 3 * sizeof op->payload[0]);
        op->payload[0] = (uintptr_t)function;
        op->payload[1] = (uintptr_t)s;
        op->payload[2] = (uintptr_t)data;
        op->always = op->host = true;
        result = sim_issue(stream, CU_GRAPH_NODE_TYPE_HOST, op, NULL);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuStreamAddCallback, _ptsz, add_callback,
          (CUstream s, CUstreamCallback function, void *data, unsigned flags),
          (s, function, data, flags))

static void write_value(struct sim_op *op)
{
    void *at = (void *)(uintptr_t)op->payload[0];
    if (op->payload[2] == 4)
        __atomic_store_n((uint32_t *)at, (uint32_t)op->payload[1], __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint64_t *)at, op->payload[1], __ATOMIC_SEQ_CST);
}

static bool reached(uint64_t value, uint64_t wanted, uint64_t width, uint64_t how)
{
    int64_t ahead =
        width == 4 ? (int32_t)((uint32_t)value - (uint32_t)wanted) : (int64_t)(value - wanted);
    switch (how) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return ahead >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return value == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return value & wanted;
    default:
        return ~(value | wanted) & (width == 4 ? UINT32_MAX : UINT64_MAX);
    }
}

static void wait_value(struct sim_op *op)
{
    void *at = (void *)(uintptr_t)op->payload[0];
    uint64_t width = op->payload[2], value;
    do {
        value = width == 4 ? __atomic_load_n((uint32_t *)at, __ATOMIC_SEQ_CST)
                           : __atomic_load_n((uint64_t *)at, __ATOMIC_SEQ_CST);
        if (reached(value, op->payload[1], width, op->payload[3]))
            return;
        sim_sleep_ns(50000);
    } while (!op->context->sticky);
}

/* The caller holds the lock. */
static CUresult value_op(struct sim_stream *stream, CUdeviceptr address, uint64_t value,
                         uint64_t width, bool wait, unsigned flags)
{
    struct sim_range *range = sim_range_at(address);
    if (!range || address % width || flags > (wait ? CU_STREAM_WAIT_VALUE_NOR : 1u))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op *op = sim_op_new(wait ? wait_value : write_value, 4 * sizeof op->payload[0]);
    op->payload[0] = (uintptr_t)range->backing + (address - range->start);
    op->payload[1] = value;
    op->payload[2] = width;
    op->payload[3] = flags;
    return sim_issue(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, op, NULL);
}

static CUresult one(bool per_thread, CUstream s, CUdeviceptr address, uint64_t value,
                    uint64_t width, bool wait, unsigned flags)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    result = value_op(stream, address, value, width, wait, flags);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

#define VALUE_ENTRIES(name, type, width, wait)                                                     \
    CUresult name(CUstream s, CUdeviceptr at, type value, unsigned flags)                          \
    {                                                                                              \
        SIM_ENTER(#name);                                                                          \
        return one(false, s, at, value, width, wait, flags);                                       \
    }                                                                                              \
    CUresult name##_ptsz(CUstream s, CUdeviceptr at, type value, unsigned flags)                   \
    {                                                                                              \
        SIM_ENTER(#name "_ptsz");                                                                  \
        return one(true, s, at, value, width, wait, flags);                                        \
    }

VALUE_ENTRIES(cuStreamWriteValue32, cuuint32_t, 4, false)
VALUE_ENTRIES(cuStreamWriteValue32_v2, cuuint32_t, 4, false)
VALUE_ENTRIES(cuStreamWriteValue64, cuuint64_t, 8, false)
VALUE_ENTRIES(cuStreamWriteValue64_v2, cuuint64_t, 8, false)
VALUE_ENTRIES(cuStreamWaitValue32, cuuint32_t, 4, true)
VALUE_ENTRIES(cuStreamWaitValue32_v2, cuuint32_t, 4, true)
VALUE_ENTRIES(cuStreamWaitValue64, cuuint64_t, 8, true)
VALUE_ENTRIES(cuStreamWaitValue64_v2, cuuint64_t, 8, true)
