/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/heap/mode.h"

#include <string.h>

static struct gf_options options;
static struct gf_mode_facts facts;

static int ordinary(void **state)
{
    (void)state;
    gf_options_load(&options, NULL);
    facts = (struct gf_mode_facts){.options = &options, .page = 4096, .jemalloc_page = 4096};
    return 0;
}

static void expect(enum gf_heap_mode mode, const char *reason)
{
    char buf[160];
    const char *got;
    assert_int_equal(gf_mode_decide(&facts, buf, sizeof(buf), &got), mode);
    assert_string_equal(got, reason);
}

static void replaces_by_default(void **state)
{
    (void)state;
    expect(gf_heap_mode_replace, "no other allocator is preloaded");
    options.heap = gf_heap_replace;
    expect(gf_heap_mode_replace, "GPUFEED_HEAP=replace");
}

static void options_leave_malloc_to_the_program(void **state)
{
    (void)state;
    options.mode = gf_mode_off;
    expect(gf_heap_mode_passthrough, "GPUFEED=off");
    options.mode = gf_mode_observe;
    expect(gf_heap_mode_passthrough, "GPUFEED=observe");
    options.heap = gf_heap_replace;
    expect(gf_heap_mode_passthrough, "GPUFEED=observe");
    options.mode = gf_mode_on;
    options.heap = gf_heap_off;
    expect(gf_heap_mode_passthrough, "GPUFEED_HEAP=off");
    options.heap = gf_heap_wrap;
    expect(gf_heap_mode_passthrough, "GPUFEED_HEAP=wrap");
}

static void without_address_space_jemalloc_does_not_start(void **state)
{
    (void)state;
    facts.cramped = true;
    expect(gf_heap_mode_passthrough, "too little address space is left for jemalloc");
    options.heap = gf_heap_replace;
    expect(gf_heap_mode_passthrough, "too little address space is left for jemalloc");
    options.heap = gf_heap_off;
    expect(gf_heap_mode_passthrough, "GPUFEED_HEAP=off");
}

static void another_allocator_wins_by_default(void **state)
{
    (void)state;
    facts.behind = "/usr/lib/libtcmalloc.so.4";
    expect(gf_heap_mode_passthrough, "libtcmalloc.so.4 serves malloc");
    options.heap = gf_heap_replace;
    expect(gf_heap_mode_replace, "GPUFEED_HEAP=replace");
    options.heap = gf_heap_auto;
    facts.before = "";
    expect(gf_heap_mode_passthrough, "the program serves malloc");
}

static void a_second_copy_leaves_malloc_to_the_first(void **state)
{
    (void)state;
    facts.duplicate = true;
    facts.before = "/opt/gpufeed/lib/libgpufeed.so";
    expect(gf_heap_mode_passthrough, "another copy of the library serves malloc");
    options.heap = gf_heap_replace;
    expect(gf_heap_mode_passthrough, "another copy of the library serves malloc");
}

static void pages_must_fit(void **state)
{
    (void)state;
    facts.page = 65536;
    expect(gf_heap_mode_passthrough,
           "the kernel has pages of 64 KiB, but jemalloc was built for at most 4 KiB");
    options.heap = gf_heap_replace;
    expect(gf_heap_mode_passthrough,
           "the kernel has pages of 64 KiB, but jemalloc was built for at most 4 KiB");
    facts.jemalloc_page = 65536;
    expect(gf_heap_mode_replace, "GPUFEED_HEAP=replace");
    facts.page = 4096;
    expect(gf_heap_mode_replace, "GPUFEED_HEAP=replace");
}

static void an_allocation_during_the_decision(void **state)
{
    (void)state;
    facts.called_inside = true;
    expect(gf_heap_mode_passthrough, "a library called malloc before the heap could start");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(replaces_by_default, ordinary),
        cmocka_unit_test_setup(options_leave_malloc_to_the_program, ordinary),
        cmocka_unit_test_setup(another_allocator_wins_by_default, ordinary),
        cmocka_unit_test_setup(a_second_copy_leaves_malloc_to_the_first, ordinary),
        cmocka_unit_test_setup(pages_must_fit, ordinary),
        cmocka_unit_test_setup(without_address_space_jemalloc_does_not_start, ordinary),
        cmocka_unit_test_setup(an_allocation_during_the_decision, ordinary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
