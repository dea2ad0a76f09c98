/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/hook/copy_shapes.h"

#include <stdlib.h>
#include <string.h>

#define HOST ((void *)0x7f0000000000)
#define DEVICE ((CUdeviceptr)0x300000000)

static CUDA_MEMCPY2D line_2d(void)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = HOST,
                           .srcPitch = 4096,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = DEVICE,
                           .dstPitch = 4096,
                           .WidthInBytes = 4096,
                           .Height = 100};
}

static CUDA_MEMCPY3D line_3d(void)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = HOST,
                           .srcPitch = 4096,
                           .srcHeight = 100,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = DEVICE,
                           .dstPitch = 4096,
                           .dstHeight = 100,
                           .WidthInBytes = 4096,
                           .Height = 100,
                           .Depth = 10};
}

static void contiguous_blocks_are_lines(void **state)
{
    (void)state;
    struct gf_copy_call call;
    CUDA_MEMCPY2D two = line_2d();
    CUDA_MEMCPY3D three = line_3d();
    two.srcY = 3, two.dstY = 1;
    assert_true(gf_linear_copy_2d(&two, &call));
    assert_int_equal(call.way, gf_copy_h2d);
    assert_int_equal(call.src, (uintptr_t)HOST + 3 * 4096);
    assert_int_equal(call.dst, DEVICE + 4096);
    assert_int_equal(call.bytes, 409600);
    three.srcZ = 2, three.dstZ = 1;
    assert_true(gf_linear_copy_3d(&three, &call));
    assert_int_equal(call.src, (uintptr_t)HOST + 2 * 409600);
    assert_int_equal(call.dst, DEVICE + 409600);
    assert_int_equal(call.bytes, 4096000);
}

static void one_row_is_a_line(void **state)
{
    (void)state;
    struct gf_copy_call call;
    CUDA_MEMCPY2D two = line_2d();
    two.Height = 1, two.srcPitch = 5000, two.dstPitch = 9000;
    two.srcXInBytes = 904, two.dstXInBytes = 17, two.srcY = 2;
    assert_true(gf_linear_copy_2d(&two, &call));
    assert_int_equal(call.src, (uintptr_t)HOST + 10904);
    assert_int_equal(call.dst, DEVICE + 17);
    assert_int_equal(call.bytes, 4096);
    two.srcXInBytes = 905; /* the row would end beyond the pitch */
    assert_false(gf_linear_copy_2d(&two, &call));
    two.srcXInBytes = two.srcY = two.srcPitch = 0; /* a pitch of 0 means the width */
    assert_true(gf_linear_copy_2d(&two, &call));
    assert_int_equal(call.src, (uintptr_t)HOST);
    two.srcY = 1; /* an offset needs a pitch, because the width of the source is unknown */
    assert_false(gf_linear_copy_2d(&two, &call));
    two.srcY = 0, two.srcXInBytes = 1;
    assert_false(gf_linear_copy_2d(&two, &call));
    two.srcXInBytes = 0, two.Height = 2;
    assert_false(gf_linear_copy_2d(&two, &call));
}

static void one_slice_is_as_in_two_dimensions(void **state)
{
    (void)state;
    struct gf_copy_call call;
    CUDA_MEMCPY3D three = line_3d();
    three.Depth = 1, three.srcHeight = 0, three.dstHeight = 150, three.srcY = 50, three.dstY = 50;
    assert_true(gf_linear_copy_3d(&three, &call));
    assert_int_equal(call.src, (uintptr_t)HOST + 50 * 4096);
    assert_int_equal(call.dst, DEVICE + 50 * 4096);
    three.dstZ = 3;
    assert_true(gf_linear_copy_3d(&three, &call));
    assert_int_equal(call.dst, DEVICE + (3 * 150 + 50) * 4096);
    three.dstY = 51; /* beyond the slice */
    assert_false(gf_linear_copy_3d(&three, &call));
    three.dstY = 50, three.srcZ = 1; /* the height of a source slice is unknown */
    assert_false(gf_linear_copy_3d(&three, &call));
}

static void each_doubt_is_the_drivers(void **state)
{
    (void)state;
    struct gf_copy_call call;
    CUDA_MEMCPY2D two;
    CUDA_MEMCPY3D three;
#define DOUBT_2D(...)                                                                              \
    two = line_2d();                                                                               \
    __VA_ARGS__;                                                                                   \
    assert_false(gf_linear_copy_2d(&two, &call))
#define DOUBT_3D(...)                                                                              \
    three = line_3d();                                                                             \
    __VA_ARGS__;                                                                                   \
    assert_false(gf_linear_copy_3d(&three, &call))
    DOUBT_2D(two.srcPitch = 4097);
    DOUBT_2D(two.dstPitch = 4097);
    DOUBT_2D(two.srcPitch = two.dstPitch = 8192);
    DOUBT_2D(two.srcPitch = 4095);
    DOUBT_2D(two.srcXInBytes = 1);
    DOUBT_2D(two.dstXInBytes = 1);
    DOUBT_2D(two.WidthInBytes = 4095);
    DOUBT_2D(two.Height = 0);
    DOUBT_2D(two.WidthInBytes = 0);
    DOUBT_2D(two.srcMemoryType = CU_MEMORYTYPE_ARRAY);
    DOUBT_2D(two.dstMemoryType = CU_MEMORYTYPE_ARRAY);
    DOUBT_2D(two.srcMemoryType = 0);
    DOUBT_2D(two.dstMemoryType = CU_MEMORYTYPE_HOST, two.dstHost = HOST);
    DOUBT_2D(two.srcMemoryType = CU_MEMORYTYPE_DEVICE, two.srcDevice = DEVICE);
    DOUBT_2D(two.WidthInBytes = two.srcPitch = two.dstPitch = (size_t)1 << 31);
    DOUBT_2D(two.Height = SIZE_MAX);
    DOUBT_2D(two.srcY = SIZE_MAX);
    DOUBT_2D(two.srcHost = (void *)-4096, two.srcY = 1);
    DOUBT_3D(three.srcHeight = 101);
    DOUBT_3D(three.dstHeight = 101);
    DOUBT_3D(three.srcHeight = 0);
    DOUBT_3D(three.srcHeight = 99);
    DOUBT_3D(three.srcY = 1);
    DOUBT_3D(three.dstPitch = 0);
    DOUBT_3D(three.srcLOD = 1);
    DOUBT_3D(three.dstLOD = 1);
    DOUBT_3D(three.reserved0 = HOST);
    DOUBT_3D(three.reserved1 = HOST);
    DOUBT_3D(three.Depth = 0);
    DOUBT_3D(three.srcZ = SIZE_MAX / 2);
    assert_false(gf_linear_copy_2d(NULL, &call));
    assert_int_equal(call.bytes, 0);
    assert_false(gf_linear_copy_3d(NULL, &call));
}

static void bytes_are_told_of_any_block(void **state)
{
    (void)state;
    struct gf_copy_call call;
    CUDA_MEMCPY2D two = line_2d();
    CUDA_MEMCPY3D three = line_3d();
    two.srcPitch = 8192;
    assert_false(gf_linear_copy_2d(&two, &call));
    assert_int_equal(call.bytes, 409600);
    three.Height = three.Depth = (size_t)1 << 40;
    assert_false(gf_linear_copy_3d(&three, &call));
    assert_int_equal(call.bytes, SIZE_MAX);
}

static void both_ends_say_the_way(void **state)
{
    (void)state;
    enum { none = -1 };
    static const int ways[5][5] = {
        /* from:      -     HOST         DEVICE       ARRAY UNIFIED         to: */
        {none, none, none, none, none},
        {none, none, gf_copy_d2h, none, gf_copy_d2h},        /* HOST */
        {none, gf_copy_h2d, none, none, gf_copy_h2d},        /* DEVICE */
        {none, none, none, none, none},                      /* ARRAY */
        {none, gf_copy_h2d, gf_copy_d2h, none, gf_copy_any}, /* UNIFIED */
    };
    for (int to = 0; to < 5; to++)
        for (int from = 0; from < 5; from++) {
            struct gf_copy_call call;
            CUDA_MEMCPY2D two = line_2d();
            two.srcMemoryType = (CUmemorytype)from;
            two.dstMemoryType = (CUmemorytype)to;
            two.srcDevice = 0x111000;
            two.dstHost = (void *)0x222000;
            const bool line = gf_linear_copy_2d(&two, &call);
            assert_int_equal(line ? (int)call.way : none, ways[to][from]);
            if (!line)
                continue;
            assert_int_equal(call.src, from == CU_MEMORYTYPE_HOST ? (uintptr_t)HOST : 0x111000);
            assert_int_equal(call.dst, to == CU_MEMORYTYPE_HOST ? 0x222000 : DEVICE);
        }
}

/* Compares with the formula of the driver's documentation, byte by byte. */
static size_t pick(unsigned *seed, size_t block)
{
    const size_t small[] = {0, 0, 0, 1, 2, block, block, block + 1, 2 * block};
    return small[rand_r(seed) % GF_ARRAY_LEN(small)];
}

static bool is_line_in_truth(size_t w, size_t h, size_t d, size_t pitch, size_t height)
{
    size_t next = 0;
    for (size_t z = 0; z < d; z++)
        for (size_t y = 0; y < h; y++) {
            if ((z * height + y) * pitch != next)
                return false;
            next += w;
        }
    return true;
}

static void random_blocks(void **state)
{
    (void)state;
    unsigned seed = 1, lines = 0;
    for (int i = 0; i < 200000; i++) {
        struct gf_copy_call call;
        CUDA_MEMCPY3D b = line_3d();
        b.WidthInBytes = (size_t)rand_r(&seed) % 4;
        b.Height = (size_t)rand_r(&seed) % 4;
        b.Depth = (size_t)rand_r(&seed) % 4;
        b.srcXInBytes = pick(&seed, 1), b.srcY = pick(&seed, 1), b.srcZ = pick(&seed, 1);
        b.dstXInBytes = pick(&seed, 1), b.dstY = pick(&seed, 1), b.dstZ = pick(&seed, 1);
        b.srcPitch = pick(&seed, b.WidthInBytes), b.srcHeight = pick(&seed, b.Height);
        b.dstPitch = pick(&seed, b.WidthInBytes), b.dstHeight = pick(&seed, b.Height);
        if (!gf_linear_copy_3d(&b, &call))
            continue;
        lines++;
        const size_t src_pitch = b.srcPitch ? b.srcPitch : b.WidthInBytes;
        const size_t dst_pitch = b.dstPitch ? b.dstPitch : b.WidthInBytes;
        assert_true(is_line_in_truth(b.WidthInBytes, b.Height, b.Depth, src_pitch, b.srcHeight));
        assert_true(is_line_in_truth(b.WidthInBytes, b.Height, b.Depth, dst_pitch, b.dstHeight));
        assert_int_equal(call.src, (uintptr_t)HOST + (b.srcZ * b.srcHeight + b.srcY) * src_pitch +
                                       b.srcXInBytes);
        assert_int_equal(call.dst,
                         DEVICE + (b.dstZ * b.dstHeight + b.dstY) * dst_pitch + b.dstXInBytes);
        assert_int_equal(call.bytes, b.WidthInBytes * b.Height * b.Depth);
        assert_true(!b.srcPitch || b.srcPitch >= b.WidthInBytes + b.srcXInBytes);
        assert_true(!b.dstHeight || b.dstHeight >= b.Height + b.dstY);
    }
    assert_true(lines > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contiguous_blocks_are_lines),
        cmocka_unit_test(one_row_is_a_line),
        cmocka_unit_test(one_slice_is_as_in_two_dimensions),
        cmocka_unit_test(each_doubt_is_the_drivers),
        cmocka_unit_test(bytes_are_told_of_any_block),
        cmocka_unit_test(both_ends_say_the_way),
        cmocka_unit_test(random_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
