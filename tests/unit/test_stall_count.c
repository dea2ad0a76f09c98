/* SPDX-License-Identifier: Apache-2.0 */
/* The causes that are counted for the report. */
#include "unit.h"

#include "preload/heap/slowpath.h"
#include "preload/trace/journal.h"
#include "preload/trace/stall.h"
#include "preload/trace/cause.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define STALL_NS UINT64_C(1000000)

/*
 * A call of the heap that sleeps in a system call, as a thread does that waits for its mmap. It
 * sleeps much longer than this thread may wait for a CPU.
 */
static void block_in_map(void)
{
    static const struct timespec moment = {.tv_nsec = 200 * STALL_NS};

    assert_true(gf_slowpath_enter(gf_slowpath_malloc, (size_t)64 << 20, 0));
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);
    nanosleep(&moment, NULL);
    gf_slowpath_end(&mark, gf_slowpath_map, (size_t)64 << 20);
    gf_slowpath_leave(NULL);
}

/*
 * Only the log's writer thread detects that a process was paused. Without a log, a call that was
 * blocked counts for the part in which it was blocked.
 */
static void test_blocked_without_log(void **state)
{
    struct gf_stall_count counts[GF_CAUSE_COUNT];
    (void)state;

    gf_stall_watch(STALL_NS);
    block_in_map();
    gf_stall_counts(counts);
    assert_int_equal(counts[gf_cause_unknown].calls, 0);
    assert_int_equal(counts[gf_cause_map].calls, 1);
    assert_true(counts[gf_cause_map].us >= 200000);
}

/* The same call with a log counts as the log's line says: in this process, no thread detects pauses. */
static void test_blocked_with_log(void **state)
{
    static char path[] = "/tmp/test_stall_count.XXXXXX";
    static char *const no_environment[] = {NULL};
    struct gf_stall_count counts[GF_CAUSE_COUNT];
    (void)state;

    close(mkstemp(path));
    gf_journal_open(path, no_environment, "test");
    block_in_map();
    gf_stall_counts(counts);
    unlink(path);
    assert_int_equal(counts[gf_cause_unknown].calls, 1);
    assert_int_equal(counts[gf_cause_map].calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocked_without_log),
        cmocka_unit_test(test_blocked_with_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
