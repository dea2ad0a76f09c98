/* SPDX-License-Identifier: Apache-2.0 */
#include "pinned_buffer_kit.h"

#include "base/atomic.h"
#include "os/headroom.h"
#include "engine/transfer/pinned/pinned_mapping.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The n-th call of one kind fails. */
static struct {
    _Atomic int mmap, madvise, populate; /* counted down; at 0 it fails */
    uint64_t bytes;                      /* headroom; 0: this machine's */
} left;

void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);

/* Helpers call it at the same time. The count stays at 0, and exactly one call fails. */
static bool fails(_Atomic int *n)
{
    int now = gf_load_relaxed(n);

    while (now > 0 && !gf_cas_relaxed(n, &now, now - 1))
        ;
    if (now != 1)
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return fails(&left.mmap) ? MAP_FAILED : __real_mmap64(at, size, protection, flags, fd, offset);
}

int __wrap_madvise(void *at, size_t size, int advice)
{
    if (advice == MADV_DONTNEED || advice == MADV_DONTDUMP)
        return __real_madvise(at, size, advice);
    _Atomic int *const n = advice == MADV_HUGEPAGE ? &left.madvise : &left.populate;
    return fails(n) ? -1 : __real_madvise(at, size, advice);
}

void __real_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    __real_gf_headroom_read(root, node, ret);
    if (left.bytes)
        ret->bytes = left.bytes;
}

static void one_registration_of_zeroes(void **state)
{
    const size_t bytes = 33 * MIB + 4097;
    CUresult result;
    (void)state;
    char *p = get(bytes);
    assert_ptr_equal(driver.at, p);
    assert_int_equal(driver.bytes, bytes);
    assert_int_equal(driver.flags, 1);
    assert_int_equal((uintptr_t)p % (2 * MIB), 0);
    for (size_t i = 0; i < bytes; i += 4096)
        assert_int_equal(p[i], 0);
    unsigned char there[33 * 256 + 2];
    assert_int_equal(mincore(p, bytes, there), 0);
    for (size_t i = 0; i < sizeof(there); i++)
        assert_int_equal(there[i] & 1, 1);
    /*
     * The mapping has whole huge pages, like the driver's mappings. Pages beyond the requested
     * bytes are absent.
     */
    size_t mapped = 0;
    gf_pinned_buffer_mapping(p + bytes, &mapped);
    assert_int_equal(mapped, 0);
    gf_pinned_buffer_mapping(p + bytes - 1, &mapped);
    assert_int_equal(mapped, 34 * MIB);
    unsigned char behind[256 - 2];
    assert_int_equal(mincore(p + 33 * MIB + 2 * 4096, sizeof(behind) * 4096, behind), 0);
    if (!gf_pinned_mapping_is_huge())
        for (size_t i = 0; i < sizeof(behind); i++)
            assert_int_equal(behind[i] & 1, 0);
    p[34 * MIB - 1] = 1;
    assert_true(give(p, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_false(is_mapped(p) || is_mapped(p + 34 * MIB - 4096));
    assert_false(give(p, &result));
}

static void refused_registration_leaves_nothing(void **state)
{
    static const struct {
        CUresult result;
        bool done, broken;
    } cases[] = {{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true, false},
                 {CUDA_ERROR_LAUNCH_FAILED, false, false},
                 {CUDA_ERROR_INVALID_CONTEXT, false, false},
                 {CUDA_ERROR_NOT_PERMITTED, false, false},
                 {CUDA_ERROR_OUT_OF_MEMORY, false, true},
                 {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, false, true},
                 {CUDA_ERROR_NOT_SUPPORTED, false, true}};
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(cases); i++) {
        void *p = &driver;
        CUresult result = CUDA_SUCCESS;
        struct gf_fault fault;
        driver.on_register = cases[i].result;
        assert_true(alloc(&p, 5 * MIB, 0, &result, &fault) == cases[i].done);
        assert_true((fault.call != NULL) == cases[i].broken);
        assert_int_equal(fault.result, cases[i].result);
        assert_int_equal(result, cases[i].result);
        assert_ptr_equal(p, &driver);
        assert_false(is_mapped(driver.at));
    }
}

/*
 * Returns the size of all mappings. statm also counts what an emulator maps for its own use, such as
 * an arena of 64 MiB for each thread.
 */
static size_t taken(void)
{
    char line[512];
    size_t bytes = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        char *end;
        const size_t start = strtoul(line, &end, 16);
        bytes += strtoul(end + 1, NULL, 16) - start;
    }
    fclose(file);
    return bytes;
}

static void failed_system_calls_leave_nothing(void **state)
{
    static const struct {
        int mmap, populate;
    } cases[] = {{1, 0}, {2, 0}, {3, 0}, {0, 1}, {0, 2}, {0, 4}};
    void *p = &driver;
    CUresult result = CUDA_SUCCESS;
    struct gf_fault fault;
    (void)state;
    pool();
    for (size_t i = 0; i < GF_ARRAY_LEN(cases); i++) {
        const size_t before = taken();
        left.mmap = cases[i].mmap;
        left.populate = cases[i].populate;
        assert_false(alloc(&p, 64 * MIB, 0, &result, &fault));
        assert_int_equal(fault.error, ENOMEM);
        if (cases[i].mmap)
            assert_string_equal(fault.call, "mmap");
        else /* as if memory were short, so the next call tries again */
            assert_null(fault.call);
        assert_ptr_equal(p, &driver);
        assert_null(driver.at);
        assert_int_equal(left.mmap + left.populate, 0);
        assert_true(taken() < before + 64 * MIB);
    }
    left.madvise = 1; /* the block is served without huge pages */
    assert_true(give(get(4 * MIB), &result));
    assert_int_equal(left.madvise, 0);
}

/*
 * Other processes may use memory while the library touches pages. So the library reads the headroom
 * again, and unmaps the range if it is too low.
 */
static void headroom_is_read_while_touching(void **state)
{
    void *p = NULL;
    CUresult result = CUDA_SUCCESS;
    struct gf_fault fault;
    (void)state;
    left.bytes = 300 * MIB;
    assert_false(alloc(&p, 300 * MIB, 0, &result, &fault));
    assert_null(fault.call); /* large allocations stay enabled */
    assert_null(driver.at);
    left.bytes = 0;
}

static void answers_as_the_driver(void **state)
{
    CUresult result;
    (void)state;
    char *p = get(4 * MIB);
    assert_true(gf_pinned_buffer_meets(p + 4 * MIB - 1, 1));
    assert_true(gf_pinned_buffer_meets(p - 10, 11));
    assert_false(gf_pinned_buffer_meets(p - 10, 10));
    assert_false(gf_pinned_buffer_meets(p + 4 * MIB, 4096));
    driver.on_unregister = CUDA_ERROR_INVALID_VALUE;
    assert_true(gf_pinned_buffer_unregister(&cuda, p, &result));
    assert_int_equal(result, CUDA_ERROR_INVALID_VALUE);
    assert_true((char *)driver.at > p && (char *)driver.at < p + 4 * MIB);
    assert_false(gf_pinned_buffer_unregister(&cuda, p + 4096, &result));
    assert_false(give(p + 4096, &result));
    driver.on_unregister = CUDA_SUCCESS;
    assert_true(give(p, &result));
}

static void flags_are_the_programs(void **state)
{
    const struct gf_pinned_buffer_request wish = {
        .cuda = &cuda, .pool = pool(), .context = 5, .policy = &first_touch, .flags = 2};
    unsigned flags = 3;
    void *p = NULL;
    CUresult result;
    struct gf_fault fault;
    (void)state;
    assert_true(gf_pinned_buffer_alloc(&wish, &p, 4 * MIB + 1, 3, &result, &fault));
    assert_int_equal(driver.flags, 3);
    assert_true(gf_pinned_buffer_flags((char *)p + 4 * MIB, &flags));
    assert_int_equal(flags, 2);
    flags = 3;
    assert_false(gf_pinned_buffer_flags((char *)p + 4 * MIB + 1, &flags));
    assert_false(gf_pinned_buffer_flags((char *)p - 1, &flags));
    assert_int_equal(flags, 3);
    assert_true(give(p, &result));
}

static void held_bytes_are_counted(void **state)
{
    uint64_t held[GF_NODE_BYTES_COUNT], sum = 0;
    CUresult result;
    (void)state;
    char *p = get(4 * MIB + 1), *q = get(8 * MIB);
    gf_pinned_buffer_held(held);
    for (size_t i = 0; i < GF_NODE_BYTES_COUNT; i++)
        sum += held[i];
    assert_int_equal(sum, 12 * MIB + 1);
    give(p, &result);
    give(q, &result);
    gf_pinned_buffer_held(held);
    for (size_t i = 0; i < GF_NODE_BYTES_COUNT; i++)
        assert_int_equal(held[i], 0);
}

static unsigned mappings_of(const char *p, size_t bytes)
{
    char line[512];
    unsigned found = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), file)) {
        const char *start = (const char *)strtoul(line, NULL, 16);
        found += start >= p && start < p + bytes;
    }
    fclose(file);
    return found;
}

/* Mappings must be few, because each fork copies them. */
static void mappings_are_few(void **state)
{
    static char *many[31]; /* 33 mappings with the first */
    CUresult result;
    (void)state;
    char *p = get(70 * MIB);
    assert_int_equal(mappings_of(p, 70 * MIB), 3); /* of 6 threads */
    for (size_t i = 0; i < GF_ARRAY_LEN(many); i++)
        many[i] = get(MIB);
    char *q = get(70 * MIB);
    assert_int_equal(mappings_of(q, 70 * MIB), 1);
    for (size_t i = 0; i < 70 * MIB; i += 4096)
        assert_int_equal(p[i] | q[i], 0);
    for (size_t i = 0; i < GF_ARRAY_LEN(many); i++)
        give(many[i], &result);
    assert_true(give(p, &result) && give(q, &result));
    assert_false(is_mapped(p) || is_mapped(p + 69 * MIB) || is_mapped(q) ||
                 is_mapped(q + 69 * MIB));
}

static void truncated_file_is_an_error(void **state)
{
    char path[] = "/tmp/gpufeed-extent-XXXXXX";
    (void)state;
    const int fd = mkstemp(path);
    unlink(path);
    assert_int_equal(ftruncate(fd, (off_t)MIB), 0);
    char *at = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = gf_pinned_mapping_populate(pool(), at, 4 * MIB, false);
    if (error == -EINVAL)
        skip_because("the kernel has no MADV_POPULATE_WRITE");
    assert_int_equal(error, -EFAULT);
    assert_int_equal(gf_pinned_mapping_populate(pool(), at, MIB, false), 0);
    mprotect(at, MIB, PROT_READ);
    assert_true(gf_pinned_mapping_populate(pool(), at, MIB, false) < 0);
    munmap(at, 4 * MIB);
    assert_true(gf_pinned_mapping_populate(pool(), at, MIB, false) < 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_registration_of_zeroes, start),
        cmocka_unit_test_setup(refused_registration_leaves_nothing, start),
        cmocka_unit_test_setup(failed_system_calls_leave_nothing, start),
        cmocka_unit_test_setup(headroom_is_read_while_touching, start),
        cmocka_unit_test_setup(answers_as_the_driver, start),
        cmocka_unit_test_setup(held_bytes_are_counted, start),
        cmocka_unit_test_setup(mappings_are_few, start),
        cmocka_unit_test_setup(flags_are_the_programs, start),
        cmocka_unit_test_setup(truncated_file_is_an_error, start),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
