/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: their results, when they read their source, and what they wait for. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST ((size_t)64 << 20)

static unsigned char *pageable, *pinned, *registered, *back, *pinned_back;
static CUdeviceptr device, device_two;
static CUstream stream;

static const char *size_name(size_t size)
{
    static char text[16];
    snprintf(text, sizeof text, size >= 1 << 20 ? "%zuM" : "%zuK",
             size >= 1 << 20 ? size >> 20 : size >> 10);
    return text;
}

/*
 * Prints when a copy reads its source. The source contains AA at the time of the call, and BB once
 * the work before the copy has ended.
 */
static void read_time(const char *name, size_t size, unsigned char *source, bool async, CUstream on)
{
    static struct fill fill;
    char text[64];
    memset(source, 0xaa, size);
    busy_fill(on, &fill, source, size, 0xbb);
    uint64_t since = now_ns();
    CUresult result = async ? cu.cuMemcpyHtoDAsync_v2(device, source, size, on)
                            : cu.cuMemcpyHtoD_v2(device, source, size);
    const char *wait = waited(since);
    MUST(cu.cuStreamSynchronize(on));
    MUST(cu.cuMemcpyDtoH_v2(back, device, size));
    snprintf(text, sizeof text, "%s.%s", name, size_name(size));
    row(text, "code %d, %s, first %02X, last %02X", (int)result, wait, back[0], back[size - 1]);
}

static void read_times(void)
{
    static const size_t sizes[] = {4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20,
                                   4 << 20, 8 << 20,  16 << 20,  64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        read_time("h2d_async.pageable", sizes[i], pageable, true, stream);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i += 3) {
        read_time("h2d_async.pinned", sizes[i], pinned, true, stream);
        read_time("h2d_async.registered", sizes[i], registered, true, stream);
        read_time("h2d.pageable", sizes[i], pageable, false, CU_STREAM_LEGACY);
        read_time("h2d.pinned", sizes[i], pinned, false, CU_STREAM_LEGACY);
        read_time("h2d.pageable_behind_blocking", sizes[i], pageable, false, stream);
    }
    read_time("h2d_async.pageable_legacy", 65536, pageable, true, CU_STREAM_LEGACY);
    read_time("h2d_async.pageable_legacy", 16 << 20, pageable, true, CU_STREAM_LEGACY);
}

/* Prints whether a call waits for earlier work on `on`. */
#define BEHIND(name, on, call)                                                                     \
    do {                                                                                           \
        static struct fill fill_;                                                                  \
        busy_fill(on, &fill_, NULL, 0, 0);                                                         \
        uint64_t since_ = now_ns();                                                                \
        CUresult result_ = call;                                                                   \
        row(name, "code %d, %s", (int)result_, waited(since_));                                    \
        MUST(cu.cuCtxSynchronize());                                                               \
    } while (0)

static void block_of(CUDA_MEMCPY2D *c, CUDA_MEMCPY3D *d, void *host)
{
    *c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = host,
                         .srcPitch = 128,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = device,
                         .dstPitch = 512,
                         .WidthInBytes = 100,
                         .Height = 64};
    *d = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = host,
                         .srcPitch = 128,
                         .srcHeight = 16,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = device,
                         .dstPitch = 512,
                         .dstHeight = 16,
                         .WidthInBytes = 100,
                         .Height = 16,
                         .Depth = 4};
}

static void blocking(void)
{
    CUstream apart, legacy = CU_STREAM_LEGACY;
    CUdeviceptr host = (uintptr_t)pageable, host_back = (uintptr_t)back;
    CUdeviceptr fixed = (uintptr_t)pinned, fixed_back = (uintptr_t)pinned_back;
    MUST(cu.cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    BEHIND("behind.d2h_async_pageable_4K", apart,
           cu.cuMemcpyDtoHAsync_v2(back, device, 4096, apart));
    BEHIND("behind.d2h_async_pageable_1M", apart,
           cu.cuMemcpyDtoHAsync_v2(back, device, 1 << 20, apart));
    BEHIND("behind.d2h_async_pageable_16M", apart,
           cu.cuMemcpyDtoHAsync_v2(back, device, 16 << 20, apart));
    BEHIND("behind.d2h_async_pinned_4K", apart,
           cu.cuMemcpyDtoHAsync_v2(pinned, device, 4096, apart));
    BEHIND("behind.d2h_async_pinned_16M", apart,
           cu.cuMemcpyDtoHAsync_v2(pinned, device, 16 << 20, apart));
    BEHIND("behind.d2d_async", apart, cu.cuMemcpyDtoDAsync_v2(device_two, device, 4096, apart));
    BEHIND("behind.h2h_async", apart, cu.cuMemcpyAsync(host_back, host, 4096, apart));
    BEHIND("behind.h2h_async_pinned", apart, cu.cuMemcpyAsync(fixed_back, fixed, 4096, apart));
    BEHIND("behind.h2h_async_mixed", apart, cu.cuMemcpyAsync(host_back, fixed, 4096, apart));
    BEHIND("behind.h2d_async_as_any", apart, cu.cuMemcpyAsync(device, host, 4096, apart));
    BEHIND("behind.memset_async", apart, cu.cuMemsetD8Async(device, 1, 4096, apart));
    BEHIND("behind.legacy_d2h", legacy, cu.cuMemcpyDtoH_v2(back, device, 4096));
    BEHIND("behind.legacy_d2h_pinned", legacy, cu.cuMemcpyDtoH_v2(pinned, device, 4096));
    BEHIND("behind.legacy_d2d", legacy, cu.cuMemcpyDtoD_v2(device_two, device, 4096));
    BEHIND("behind.legacy_any_d2d", legacy, cu.cuMemcpy(device_two, device, 4096));
    BEHIND("behind.legacy_any_h2h", legacy, cu.cuMemcpy(host_back, host, 4096));
    BEHIND("behind.legacy_any_h2h_pinned", legacy, cu.cuMemcpy(fixed_back, fixed, 4096));
    BEHIND("behind.legacy_memset", legacy, cu.cuMemsetD8_v2(device, 1, 4096));
    BEHIND("behind.legacy_size_0", legacy, cu.cuMemcpyHtoD_v2(device, pageable, 0));
    BEHIND("behind.non_blocking_h2d", apart, cu.cuMemcpyHtoD_v2(device, pageable, 4096));
    BEHIND("behind.non_blocking_d2h", apart, cu.cuMemcpyDtoH_v2(back, device, 4096));
    BEHIND("behind.blocking_h2d_own", stream, cu.cuMemcpyHtoD_v2_ptds(device, pageable, 4096));
    BEHIND("behind.legacy_h2d_own", legacy, cu.cuMemcpyHtoD_v2_ptds(device, pageable, 4096));
    BEHIND("behind.own_h2d_own", CU_STREAM_PER_THREAD,
           cu.cuMemcpyHtoD_v2_ptds(device, pageable, 4096));
    BEHIND("behind.own_h2d_async_own", CU_STREAM_PER_THREAD,
           cu.cuMemcpyHtoDAsync_v2_ptsz(device, pinned, 4096, NULL));
    CUDA_MEMCPY2D two;
    CUDA_MEMCPY3D three;
    block_of(&two, &three, pageable);
    BEHIND("behind.2d_async", apart, cu.cuMemcpy2DAsync_v2(&two, apart));
    BEHIND("behind.3d_async", apart, cu.cuMemcpy3DAsync_v2(&three, apart));
    BEHIND("behind.legacy_2d", legacy, cu.cuMemcpy2D_v2(&two));
    BEHIND("behind.legacy_3d", legacy, cu.cuMemcpy3D_v2(&three));
    block_of(&two, &three, pinned);
    BEHIND("behind.2d_async_pinned", apart, cu.cuMemcpy2DAsync_v2(&two, apart));
    BEHIND("behind.3d_async_pinned", apart, cu.cuMemcpy3DAsync_v2(&three, apart));
}

static void kernel_first(void)
{
    static const size_t sizes[] = {4 << 10, 1 << 20, 16 << 20};
    for (size_t i = 0; i < 3; i++) {
        char text[64];
        busy_kernel(stream);
        uint64_t since = now_ns();
        CUresult result = cu.cuMemcpyHtoDAsync_v2(device, pageable, sizes[i], stream);
        snprintf(text, sizeof text, "behind_kernel.h2d_async.%s", size_name(sizes[i]));
        row(text, "code %d, %s", (int)result, waited(since));
        MUST(cu.cuStreamSynchronize(stream));
    }
}

static void batches(void)
{
    static const struct {
        const char *name;
        CUmemcpySrcAccessOrder order;
    } orders[] = {{"stream", CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                  {"during", CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
                  {"any", CU_MEMCPY_SRC_ACCESS_ORDER_ANY}};
    for (size_t i = 0; i < 3; i++)
        for (int fixed = 0; fixed < 2; fixed++) {
            static struct fill fill;
            char text[64];
            unsigned char *source = fixed ? pinned : pageable;
            CUdeviceptr to[] = {device, device + 8192},
                        from[] = {(uintptr_t)source, (uintptr_t)source + 4096};
            size_t sizes[] = {4096, 4096}, first[] = {0};
            CUmemcpyAttributes attributes = {.srcAccessOrder = orders[i].order};
            memset(source, 0xaa, 8192);
            busy_fill(stream, &fill, source, 8192, 0xbb);
            uint64_t since = now_ns();
            CUresult result =
                cu.cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, first, 1, stream);
            const char *wait = waited(since);
            MUST(cu.cuStreamSynchronize(stream));
            MUST(cu.cuMemcpyDtoH_v2(back, device, 16384));
            snprintf(text, sizeof text, "batch.%s.%s", fixed ? "pinned" : "pageable",
                     orders[i].name);
            row(text, "code %d, %s, first %02X, last %02X", (int)result, wait, back[0],
                back[8192 + 4095]);
        }
    CUdeviceptr to[] = {device}, from[] = {(uintptr_t)pinned};
    size_t sizes[] = {4096}, first[] = {0};
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    row_code("batch.null_stream",
             cu.cuMemcpyBatchAsync_v2(to, from, sizes, 1, &attributes, first, 1, NULL));
    row_code("batch.legacy_stream",
             cu.cuMemcpyBatchAsync_v2(to, from, sizes, 1, &attributes, first, 1, CU_STREAM_LEGACY));
    row_code("batch.count_0",
             cu.cuMemcpyBatchAsync_v2(to, from, sizes, 0, &attributes, first, 1, stream));
    row_code("batch.no_attributes",
             cu.cuMemcpyBatchAsync_v2(to, from, sizes, 1, NULL, NULL, 0, stream));
    sizes[0] = 0;
    row_code("batch.size_0",
             cu.cuMemcpyBatchAsync_v2(to, from, sizes, 1, &attributes, first, 1, stream));
    MUST(cu.cuCtxSynchronize());
}

static void refused(void)
{
    CUDA_MEMCPY2D two;
    CUDA_MEMCPY3D three;
    CUdeviceptr small, host = (uintptr_t)pageable;
    MUST(cu.cuMemAlloc_v2(&small, 4 << 20));
    row_code("size_0", cu.cuMemcpyHtoD_v2(small, pageable, 0));
    row_code("size_0_null", cu.cuMemcpyHtoD_v2(0, NULL, 0));
    row_code("dst_null", cu.cuMemcpyHtoD_v2(0, pageable, 16));
    row_code("src_null_d2h", cu.cuMemcpyDtoH_v2(back, 0, 16));
    row_code("past_the_end", cu.cuMemcpyHtoD_v2(small, pageable, (4 << 20) + 1));
    row_code("past_the_end_async",
             cu.cuMemcpyHtoDAsync_v2(small + 4096, pageable, 4 << 20, stream));
    row_code("past_the_end_d2h", cu.cuMemcpyDtoH_v2(back, small + 1, 4 << 20));
    row_code("dst_pageable", cu.cuMemcpyHtoD_v2(host, back, 16));
    row_code("dst_pinned", cu.cuMemcpyHtoD_v2((uintptr_t)pinned, pageable, 16));
    row_code("src_device", cu.cuMemcpyHtoD_v2(small, (void *)device, 16));
    row_code("src_pageable_d2h", cu.cuMemcpyDtoH_v2(back, host, 16));
    row_code("src_pinned_d2h", cu.cuMemcpyDtoH_v2(back, (uintptr_t)pinned, 16));
    row_code("dst_device_d2h", cu.cuMemcpyDtoH_v2((void *)small, device, 16));
    row_code("d2d_pageable", cu.cuMemcpyDtoD_v2(small, host, 16));
    row_code("d2d_overlap", cu.cuMemcpyDtoD_v2(small + 8, small, 64));
    row_code("any_pageable", cu.cuMemcpy((uintptr_t)back, host, 16));
    row_code("memset_past", cu.cuMemsetD8_v2(small, 0, (4 << 20) + 1));
    row_code("memset_unaligned", cu.cuMemsetD32_v2(small + 2, 0, 4));
    row_code("memset_pageable", cu.cuMemsetD8_v2(host, 0, 4));
    row_code("memset_pinned", cu.cuMemsetD8_v2((uintptr_t)pinned, 0, 4));
    block_of(&two, &three, pageable);
    row_code("2d", cu.cuMemcpy2D_v2(&two));
    two.srcPitch = 50;
    row_code("2d_pitch", cu.cuMemcpy2D_v2(&two));
    two.srcPitch = 0;
    row_code("2d_pitch_0", cu.cuMemcpy2D_v2(&two));
    two.Height = 0;
    row_code("2d_height_0", cu.cuMemcpy2D_v2(&two));
    row_code("2d_null", cu.cuMemcpy2D_v2(NULL));
    row_code("3d", cu.cuMemcpy3D_v2(&three));
    three.srcHeight = 8;
    row_code("3d_height", cu.cuMemcpy3D_v2(&three));
    MUST(cu.cuCtxSynchronize());
}

static void bytes(void)
{
    CUDA_MEMCPY2D two;
    CUDA_MEMCPY3D three;
    for (size_t i = 0; i < 1 << 20; i++)
        pageable[i] = (unsigned char)(i * 7 + (i >> 8));
    block_of(&two, &three, pageable);
    MUST(cu.cuMemsetD8_v2(device, 0, 1 << 20));
    two.srcXInBytes = 5, two.srcY = 2, two.dstXInBytes = 3, two.dstY = 1;
    MUST(cu.cuMemcpy2D_v2(&two));
    MUST(cu.cuMemcpyDtoH_v2(back, device, 1 << 16));
    row("bytes.2d", "%s",
        back[512 + 3] == pageable[256 + 5] && back[512 + 2] == 0 &&
                back[512 * 64 + 3 + 99] == pageable[128 * 65 + 5 + 99] &&
                back[512 * 64 + 3 + 100] == 0
            ? "right"
            : "wrong");
    MUST(cu.cuMemsetD8_v2(device, 0, 1 << 20));
    three.srcZ = 1, three.dstZ = 2, three.dstY = 1, three.dstHeight = 32;
    MUST(cu.cuMemcpy3D_v2(&three));
    MUST(cu.cuMemcpyDtoH_v2(back, device, 1 << 17));
    row("bytes.3d", "%s",
        back[512 * 65] == pageable[128 * 16] &&
                back[512 * (65 + 96 + 15) + 99] == pageable[128 * (16 * 5 - 1) + 99]
            ? "right"
            : "wrong");
    MUST(cu.cuMemsetD32_v2(device, 0x01020304, 16));
    MUST(cu.cuMemcpyDtoH_v2(back, device, 4));
    row("bytes.memset", "%02x%02x%02x%02x", back[0], back[1], back[2], back[3]);
}

static void setup(void)
{
    start();
    kernel("spin");
    pageable = aligned_alloc(4096, LARGEST), back = aligned_alloc(4096, LARGEST);
    registered = aligned_alloc(4096, LARGEST);
    memset(pageable, 1, LARGEST), memset(back, 1, LARGEST), memset(registered, 1, LARGEST);
    MUST(cu.cuMemHostAlloc((void **)&pinned, LARGEST, 0));
    MUST(cu.cuMemHostAlloc((void **)&pinned_back, LARGEST, 0));
    MUST(cu.cuMemHostRegister_v2(registered, LARGEST, 0));
    MUST(cu.cuMemAlloc_v2(&device, LARGEST));
    MUST(cu.cuMemAlloc_v2(&device_two, LARGEST));
    MUST(cu.cuStreamCreate(&stream, 0));
}

void facts_copy(void)
{
    setup();
    refused();
    bytes();
    read_times();
}

void facts_order(void)
{
    setup();
    blocking();
    kernel_first();
    batches();
}
