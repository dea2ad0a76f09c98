/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of freed pinned buffers, which later buffers reuse. */
#include "pinned_buffer_kit.h"

#include "base/clock.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned_mapping.h"
#include "engine/transfer/pinned/pinned_buffer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int begin(void **state)
{
    gf_kept_mapping_trim(UINT64_MAX, 0);
    keep_bytes = 64 * MIB;
    return start(state);
}

static void put_back(void *p)
{
    CUresult result;
    assert_true(give(p, &result));
    assert_int_equal(result, CUDA_SUCCESS);
}

/* A buffer of a size that was freed before, so that a free keeps it. */
static char *get_again(size_t bytes)
{
    gf_recycled_note(bytes);
    return get(bytes);
}

static char *take(size_t bytes)
{
    struct gf_pinned_mapping kept;
    if (!gf_kept_mapping_take(pool(), bytes, &first_touch, &kept))
        return NULL;
    const struct gf_pinned_buffer_request wish = {
        .cuda = &cuda, .pool = pool(), .context = 5, .policy = &first_touch, .kept = &kept};
    void *p = NULL;
    CUresult result;
    struct gf_fault fault;
    assert_true(gf_pinned_buffer_alloc(&wish, &p, bytes, 0, &result, &fault));
    assert_int_equal(driver.bytes, bytes);
    return p;
}

static void kept_from_the_second_free_on(void **state)
{
    (void)state;
    char *p = get(6 * MIB);
    put_back(p);
    assert_false(is_mapped(p));
    assert_int_equal(gf_kept_mapping_bytes(), 0);
    p = get(6 * MIB);
    put_back(p);
    assert_int_equal(gf_kept_mapping_bytes(), 6 * MIB);
    p = take(6 * MIB);
    assert_int_equal(gf_kept_mapping_bytes(), 0);
    put_back(p);
}

/* As in a new mapping, all bytes are zero, also those behind the buffer, and all pages present. */
static void reused_mapping_is_new(void **state)
{
    const size_t bytes = 5 * MIB + 100, more = 5 * MIB + 300000;
    unsigned char there[MIB / 4096];
    (void)state;
    char *p = get_again(bytes);
    memset(p, 7, 6 * MIB);
    put_back(p);
    p = take(more);
    assert_int_equal(mincore(p + 5 * MIB, more - 5 * MIB, there), 0);
    for (size_t i = 0; i < (more - 5 * MIB + 4095) / 4096; i++)
        assert_true(there[i] & 1);
    for (size_t i = 0; i < 6 * MIB; i++)
        assert_int_equal(p[i], 0);
    put_back(p);
}

static void other_buffers_get_other_mappings(void **state)
{
    static const struct gf_range_policy bound = {.mode = 2, .nodes = {{1}}};
    struct gf_pinned_mapping kept;
    (void)state;
    char *p = get_again(4 * MIB);
    put_back(p);
    assert_null(take(2 * MIB));
    assert_null(take(4 * MIB + 1));
    assert_false(gf_kept_mapping_take(pool(), 4 * MIB, &bound, &kept));
    p = take(4 * MIB);
    assert_null(take(4 * MIB));
    put_back(p);
}

static void oldest_ones_leave(void **state)
{
    char *p[3];
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
        p[i] = get_again((i + 1) * 2 * MIB);
    keep_bytes = 11 * MIB;
    for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
        put_back(p[i]);
    assert_int_equal(gf_kept_mapping_bytes(), 10 * MIB);
    assert_null(take(2 * MIB));
    char *large = get_again(32 * MIB), *huge = get(33 * MIB);
    put_back(large);
    keep_bytes = SIZE_MAX;
    gf_recycled_note(33 * MIB);
    put_back(huge);
    assert_int_equal(gf_kept_mapping_bytes(), 10 * MIB);
    assert_int_equal(gf_kept_mapping_trim(gf_now_ns() - UINT64_C(600000000000), UINT64_MAX), 0);
    assert_int_equal(gf_kept_mapping_trim(UINT64_MAX, UINT64_MAX), 2);
    assert_int_equal(gf_kept_mapping_bytes(), 0);
}

static void many_are_kept(void **state)
{
    char *p[40];
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
        p[i] = get_again(i < 8 ? 4 * MIB : 2 * MIB);
    keep_bytes = SIZE_MAX;
    for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
        put_back(p[i]);
    assert_int_equal(gf_kept_mapping_bytes(), 64 * MIB);
}

static void wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A child has the bytes of a buffer that its parent frees, as of the driver's memory. */
static void inherited_mapping_is_not_kept(void **state)
{
    int pipes[2];
    char byte;
    (void)state;
    char *p = get_again(4 * MIB);
    p[4096] = 5;
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(pipes[1]); /* so that the child ends with its parent */
        _exit(read(pipes[0], &byte, 1) != 1 || p[4096] != 5);
    }
    put_back(p);
    assert_int_equal(gf_kept_mapping_bytes(), 0);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    wait_for(child);
    char *q = get_again(4 * MIB); /* later buffers are kept */
    put_back(q);
    assert_int_equal(gf_kept_mapping_bytes(), 4 * MIB);
}

/* Whether the process has a shared mapping of this size. */
static bool has_shared(size_t bytes)
{
    char line[512], *end;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        const uintptr_t from = strtoul(line, &end, 16), to = strtoul(end + 1, &end, 16);
        found |= to - from == bytes && strncmp(end, " rw-s ", 6) == 0;
    }
    fclose(maps);
    return found;
}

static void kept_mapping_is_not_inherited(void **state)
{
    (void)state;
    char *p = get_again(14 * MIB);
    put_back(p);
    assert_true(has_shared(14 * MIB));
    pid_t child = fork();
    if (child == 0)
        _exit(has_shared(14 * MIB));
    wait_for(child);
    p = take(14 * MIB);
    child = fork();
    if (child == 0) {
        p[8192] = 3;
        _exit(0);
    }
    wait_for(child);
    assert_int_equal(p[8192], 3); /* the buffer is shared with the child */
    put_back(p);
}

/* As in a new mapping, a protection that the program has set is gone. */
/* Whether the mapping at `p` has a flag of VmFlags in /proc/self/smaps. */
static bool has_flag(const char *p, const char *flag)
{
    char line[512], *end;
    bool there = false, found = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        const uintptr_t from = strtoul(line, &end, 16);
        if (*end == '-')
            there = (uintptr_t)p - from < strtoul(end + 1, NULL, 16) - from;
        found |= there && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, flag);
    }
    fclose(maps);
    return found;
}

static void reused_mapping_is_writable(void **state)
{
    (void)state;
    char *p = get_again(8 * MIB);
    memset(p, 7, 8 * MIB);
    assert_int_equal(mprotect(p, 8 * MIB, PROT_READ), 0);
    assert_int_equal(madvise(p, 4 * MIB, MADV_DONTDUMP), 0);
    put_back(p);
    p = take(8 * MIB);
    assert_non_null(p);
    assert_int_equal(p[8 * MIB - 1], 0);
    assert_false(has_flag(p, " dd"));
    p[0] = 1;
    put_back(p);
}

/* As after an munmap, the program may map memory where its buffer was. */
static void range_of_a_freed_buffer_is_free(void **state)
{
    (void)state;
    char *p = get_again(4 * MIB);
    put_back(p);
    assert_int_equal(gf_kept_mapping_bytes(), 4 * MIB);
    char *own = mmap(p, 4 * MIB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(own, p);
    p = take(4 * MIB);
    memset(p, 1, 4 * MIB);
    assert_int_equal(own[4096], 0);
    put_back(p);
    munmap(own, 4 * MIB);
}

/* The program maps its file over its buffer from `start` on, and frees the buffer. */
static void replace_and_free(size_t start)
{
    char *p = get_again(4 * MIB), byte = 0;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 4 * MIB), 0);
    assert_int_equal(pwrite(fileno(file), "a", 1, 0), 1);
    assert_ptr_equal(mmap(p + start, 4 * MIB - start, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, fileno(file), 0),
                     p + start);
    put_back(p);
    assert_int_equal(gf_kept_mapping_bytes(), 0);
    assert_false(is_mapped(p) || is_mapped(p + start));
    assert_int_equal(pread(fileno(file), &byte, 1, 0), 1);
    assert_int_equal(byte, 'a');
    fclose(file);
}

/* The program maps shared memory of its own over its buffer. The next buffer is not this memory. */
static void share_and_free(void)
{
    const int flags = MAP_SHARED | MAP_ANONYMOUS;
    char *p = get_again(4 * MIB), *own = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0);

    assert_ptr_not_equal(own, MAP_FAILED);
    assert_ptr_equal(mremap(own, 0, 4 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, p), p);
    own[4096] = 'a';
    put_back(p);
    assert_int_equal(gf_kept_mapping_bytes(), 0);
    assert_int_equal(own[4096], 'a');
    munmap(own, 4 * MIB);
}

static void mapping_that_the_program_has_changed_is_not_kept(void **state)
{
    struct gf_vma vma;

    (void)state;
    gf_vma_query_start();
    replace_and_free(MIB);
    if (gf_vma_query((uintptr_t)&vma, &vma, NULL, 0) == 0) {
        replace_and_free(0);
        share_and_free();
    }
}

/* Another thread may get a buffer while a fork is under way, after the handlers before the fork. */
static bool wants_fork;
static char *during_fork;

static void get_during_fork(void)
{
    if (wants_fork && during_fork == NULL)
        during_fork = get_again(4 * MIB);
}

static void mapping_of_a_fork_under_way_is_not_kept(void **state)
{
    (void)state;
    gf_kept_mapping_forks();
    wants_fork = true;
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    wait_for(child);
    assert_non_null(during_fork);
    put_back(during_fork);
    assert_int_equal(gf_kept_mapping_bytes(), 0);
    char *p = get_again(4 * MIB);
    put_back(p);
    assert_int_equal(gf_kept_mapping_bytes(), 4 * MIB);
}

static void sizes_are_recycled(void **state)
{
    static char blocks[3];
    (void)state;
    assert_false(gf_recycled_covers(2 * MIB - 4096) || gf_recycled_covers(32 * MIB + 1));
    assert_true(gf_recycled_covers(2 * MIB) && gf_recycled_covers(32 * MIB));
    gf_recycled_allocated(&blocks[0], 20 * MIB);
    gf_recycled_freed(&blocks[1]);
    assert_false(gf_recycled(20 * MIB));
    gf_recycled_freed(&blocks[0]);
    assert_true(gf_recycled(20 * MIB) && gf_recycled(18 * MIB + 1));
    assert_false(gf_recycled(18 * MIB) || gf_recycled(20 * MIB + 1));
    gf_recycled_allocated(&blocks[2], MIB);
    gf_recycled_freed(&blocks[2]);
    gf_recycled_freed(NULL);
    assert_false(gf_recycled(MIB) || gf_recycled(22 * MIB));
}

/* Many mappings in use make the parts of a large buffer larger. Kept ones are not in use. */
static void kept_mappings_are_not_in_use(void **state)
{
    char *p[32];
    struct gf_pinned_mapping large;
    const char *call;
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
        p[i] = get_again(2 * MIB);
    for (size_t turn = 0; turn < 3; turn++) {
        keep_bytes = SIZE_MAX;
        for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
            put_back(p[i]);
        assert_int_equal(gf_kept_mapping_bytes(), 64 * MIB);
        char *one = get(2 * MIB);
        assert_int_equal(gf_pinned_mapping_make(pool(), 96 * MIB, &first_touch, &large, &call), 0);
        assert_int_equal(large.parts, 3);
        gf_pinned_mapping_unmap(&large);
        put_back(one);
        gf_kept_mapping_trim(0, 64 * MIB - 1);
        for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
            if (!(p[i] = take(2 * MIB)))
                p[i] = get(2 * MIB);
        one = get(2 * MIB);
        assert_int_equal(gf_pinned_mapping_make(pool(), 96 * MIB, &first_touch, &large, &call), 0);
        assert_int_equal(large.parts, 1);
        gf_pinned_mapping_unmap(&large);
        put_back(one);
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(p); i++)
        put_back(p[i]);
}

int main(void)
{
    /* Handlers that were registered first run last before a fork. */
    pthread_atfork(get_during_fork, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kept_from_the_second_free_on, begin),
        cmocka_unit_test_setup(reused_mapping_is_new, begin),
        cmocka_unit_test_setup(reused_mapping_is_writable, begin),
        cmocka_unit_test_setup(range_of_a_freed_buffer_is_free, begin),
        cmocka_unit_test_setup(other_buffers_get_other_mappings, begin),
        cmocka_unit_test_setup(oldest_ones_leave, begin),
        cmocka_unit_test_setup(many_are_kept, begin),
        cmocka_unit_test_setup(kept_mappings_are_not_in_use, begin),
        cmocka_unit_test_setup(inherited_mapping_is_not_kept, begin),
        cmocka_unit_test_setup(kept_mapping_is_not_inherited, begin),
        cmocka_unit_test_setup(mapping_of_a_fork_under_way_is_not_kept, begin),
        cmocka_unit_test_setup(sizes_are_recycled, begin),
        /* last, because kernels before 6.11 then let no mapping be kept */
        cmocka_unit_test_setup(mapping_that_the_program_has_changed_is_not_kept, begin),
    };
    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
