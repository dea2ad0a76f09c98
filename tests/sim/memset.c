/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills device memory, always in stream order. The functions without Async in their name do not
 * wait either.
 */
#include "sim.h"

#include <string.h>

struct fill {
    char *at;
    size_t unit, width, height, pitch;
    uint32_t value;
};

/* The lengths of memcpy are constants, or else each unit would cost a call. Little endian. */
static void fill_row(char *at, size_t unit, uint32_t value, size_t width)
{
    switch (unit) {
    case 1:
        memset(at, (int)value, width);
        break;
    case 2:
        for (size_t x = 0; x < width; x++)
            memcpy(at + 2 * x, &value, 2);
        break;
    default:
        for (size_t x = 0; x < width; x++)
            memcpy(at + 4 * x, &value, 4);
    }
}

static void run(struct sim_op *op)
{
    const struct fill f = *(const struct fill *)op->payload;
    for (size_t y = 0; y < f.height; y++)
        fill_row(f.at + y * f.pitch, f.unit, f.value, f.width);
}

static CUresult fill(bool per_thread, CUstream s, CUdeviceptr at, size_t pitch, size_t unit,
                     uint32_t value, size_t width, size_t height, bool async)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    struct sim_range *range = sim_range_at(at);
    if (!width || !height) {
        result = CUDA_SUCCESS;
    } else if (!range || at % unit ||
               (height - 1) * pitch + width * unit > range->size - (at - range->start)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (!async && (result = sim_capture_implicit(stream))) {
    } else {
        struct sim_op *op = sim_op_new(run, sizeof(struct fill));
        *(struct fill *)op->payload =
            (struct fill){range->backing + (at - range->start), unit, width, height, pitch, value};
        result = sim_issue(stream, CU_GRAPH_NODE_TYPE_MEMSET, op, NULL);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

#define FILL(bits, type)                                                                           \
    static CUresult d##bits(bool per_thread, CUdeviceptr at, type value, size_t n)                 \
    {                                                                                              \
        return fill(per_thread, NULL, at, 0, sizeof value, value, n, 1, false);                    \
    }                                                                                              \
    static CUresult d##bits##_async(bool per_thread, CUdeviceptr at, type value, size_t n,         \
                                    CUstream s)                                                    \
    {                                                                                              \
        return fill(per_thread, s, at, 0, sizeof value, value, n, 1, true);                        \
    }                                                                                              \
    static CUresult d2##bits(bool per_thread, CUdeviceptr at, size_t pitch, type value,            \
                             size_t width, size_t height)                                          \
    {                                                                                              \
        return fill(per_thread, NULL, at, pitch, sizeof value, value, width, height, false);       \
    }                                                                                              \
    static CUresult d2##bits##_async(bool per_thread, CUdeviceptr at, size_t pitch, type value,    \
                                     size_t width, size_t height, CUstream s)                      \
    {                                                                                              \
        return fill(per_thread, s, at, pitch, sizeof value, value, width, height, true);           \
    }                                                                                              \
    SIM_TWINS(cuMemsetD##bits##_v2, _ptds, d##bits, (CUdeviceptr at, type value, size_t n),        \
              (at, value, n))                                                                      \
    SIM_TWINS(cuMemsetD##bits##Async, _ptsz, d##bits##_async,                                      \
              (CUdeviceptr at, type value, size_t n, CUstream s), (at, value, n, s))               \
    SIM_TWINS(cuMemsetD2D##bits##_v2, _ptds, d2##bits,                                             \
              (CUdeviceptr at, size_t pitch, type value, size_t width, size_t height),             \
              (at, pitch, value, width, height))                                                   \
    SIM_TWINS(cuMemsetD2D##bits##Async, _ptsz, d2##bits##_async,                                   \
              (CUdeviceptr at, size_t pitch, type value, size_t width, size_t height, CUstream s), \
              (at, pitch, value, width, height, s))

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
