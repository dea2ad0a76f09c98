/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "host/locality.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *write_maps(const char *text)
{
    static char path[] = "/tmp/gpufeed-maps-XXXXXX";
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

static void pages_by_node_and_kind(void **state)
{
    (void)state;
    const char *path = write_maps(
        "55d0c0000000 default file=/usr/bin/python3.11 mapped=100 N0=100 kernelpagesize_kB=4\n"
        "7f0000000000 prefer:1 anon=30 dirty=30 N0=10 N1=20 kernelpagesize_kB=4\n"
        "7f0000200000 default\n"
        "7f0000400000 prefer:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
        "7f0001000000 default file=/dev/zero\\040(deleted) dirty=5 N0=5 kernelpagesize_kB=4\n"
        "7f0002000000 default anon=7 dirty=7 N70=7 kernelpagesize_kB=4\n");
    struct gf_range ranges[] = {{0x7f0000400000, 0x400000}, {0x7f0000000000, 0x10000}};
    struct gf_locality found;
    gf_locality_pages(path, ranges, 2, &found);
    unlink(path);
    assert_true(found.known);
    assert_int_equal(found.heap.node[0], 10 * 4096);
    assert_int_equal(found.heap.node[1], 20 * 4096 + 2 * 2097152);
    assert_int_equal(found.heap.total, 30 * 4096 + 2 * 2097152);
    assert_int_equal(found.other.node[0], 5 * 4096);
    assert_int_equal(found.other.node[GF_LOCALITY_NODES - 1], 7 * 4096);
}

/* The kernel merges adjacent mappings, so a range of the heap may begin inside a listed mapping. */
static void merged_mappings_count_for_the_heap(void **state)
{
    (void)state;
    const char *path = write_maps("7f0000000000 default anon=8 N0=8 kernelpagesize_kB=4\n"
                                  "7f0000100000 default anon=1 N0=1 kernelpagesize_kB=4\n");
    struct gf_range inside = {0x7f0000002000, 0x1000};
    struct gf_locality found;
    gf_locality_pages(path, &inside, 1, &found);
    unlink(path);
    assert_int_equal(found.heap.total, 8 * 4096);
    assert_int_equal(found.other.total, 4096);
}

static void long_lines_and_no_newline(void **state)
{
    (void)state;
    char *text = malloc(40000);
    size_t at = (size_t)sprintf(text, "7f0000000000 default anon=3 N0=3 kernelpagesize_kB=4 file=");
    memset(text + at, 'x', 20000);
    at += 20000;
    sprintf(text + at, "\n7f0000100000 default anon=1 N1=1 kernelpagesize_kB=4\n");
    const char *path = write_maps(text);
    struct gf_locality found;
    gf_locality_pages(path, NULL, 0, &found);
    unlink(path);
    free(text);
    assert_int_equal(found.other.node[0], 3 * 4096);
    assert_int_equal(found.other.node[1], 4096);
}

static void missing_file_is_unknown(void **state)
{
    (void)state;
    struct gf_locality found;
    gf_locality_pages("/nonexistent/numa_maps", NULL, 0, &found);
    assert_false(found.known);
}

static void own_pages_are_seen(void **state)
{
    (void)state;
    const size_t size = 64 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, size);
    struct gf_range range = {(uintptr_t)memory, size};
    struct gf_locality found;
    gf_locality_pages("/proc/self/numa_maps", &range, 1, &found);
    if (!found.known)
        skip_because("no CONFIG_NUMA, or a sandbox that lacks the file");
    assert_true(found.heap.total >= size);
    struct gf_nodes all;
    memset(&all, 0xff, sizeof(all));
    assert_int_equal(gf_pages_share(&found.heap, &all), 1000);
    const struct gf_nodes none = {0};
    assert_int_equal(gf_pages_share(&found.heap, &none), 0);
}

/* A quarter of the range is present. */
static void a_sample_estimates_what_is_present(void **state)
{
    (void)state;
    const size_t size = 64 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    madvise(memory, size, MADV_NOHUGEPAGE);
    memset(memory + size / 2, 1, size / 4);
    const struct gf_range ranges[] = {{(uintptr_t)memory, size / 2},
                                      {(uintptr_t)memory + size / 2, size / 2}};
    struct gf_locality found;
    gf_locality_sample(ranges, GF_ARRAY_LEN(ranges), &found);
    if (!found.known)
        skip_because("move_pages is not permitted");
    assert_false(found.whole);
    assert_in_range(found.heap.total, size / 4 - size / 64, size / 4 + size / 64);
    gf_locality_sample(ranges, 0, &found);
    assert_false(found.known);
    munmap(memory, size);
}

static enum gf_thread_class main_is_self_set(pid_t tid)
{
    return tid == getpid() ? gf_thread_self_set : gf_thread_program;
}

static void threads_by_owner(void **state)
{
    (void)state;
    struct gf_cpus mask = {0};
    struct gf_threads found;
    assert_true(syscall(SYS_sched_getaffinity, 0, sizeof(mask), &mask) > 0);
    gf_locality_threads(&mask, NULL, &found);
    assert_int_equal(found.program, 1);
    assert_int_equal(found.on_target, 1);
    const struct gf_cpus other = {0};
    gf_locality_threads(&other, NULL, &found);
    assert_int_equal(found.elsewhere, 1);
    gf_locality_threads(&mask, main_is_self_set, &found);
    assert_int_equal(found.program, 0);
    assert_int_equal(found.self_set, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_by_node_and_kind),
        cmocka_unit_test(merged_mappings_count_for_the_heap),
        cmocka_unit_test(long_lines_and_no_newline),
        cmocka_unit_test(missing_file_is_unknown),
        cmocka_unit_test(own_pages_are_seen),
        cmocka_unit_test(a_sample_estimates_what_is_present),
        cmocka_unit_test(threads_by_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
