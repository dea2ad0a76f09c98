/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of a GPU's time: engine/gputime/shares.c and feeder.c. */
#include "unit.h"

#include "base/clock.h"
#include "base/path.h"
#include "engine/gputime/step_facts.h"
#include "engine/gputime/host_causes.h"
#include "engine/gputime/shares.h"
#include "engine/gputime/idle_lines.h"
#include "os/own_table.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static void add(struct gf_gpu_shares *shares, uint64_t at_ms, enum gf_gpu_state state,
                enum gf_host_cause cause)
{
    const struct gf_gpu_sample sample = {.at_ns = at_ms * MS, .state = state, .cause = cause};
    gf_gpu_shares_add(shares, &sample);
}

static uint64_t sum(const _Atomic uint64_t *ns, unsigned count)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < count; i++)
        all += gf_load_relaxed(&ns[i]);
    return all;
}

static void each_sample_stands_for_half_of_both_intervals(void **state)
{
    struct gf_gpu_shares shares = {0};
    (void)state;

    add(&shares, 10, gf_gpu_queued, gf_host_other);
    add(&shares, 14, gf_gpu_empty, gf_host_file);
    add(&shares, 20, gf_gpu_empty, gf_host_network);
    add(&shares, 21, gf_gpu_copying, gf_host_other);
    assert_int_equal(gf_load_relaxed(&shares.state_ns[gf_gpu_queued]), 2 * MS);
    assert_int_equal(gf_load_relaxed(&shares.state_ns[gf_gpu_empty]), 2 * MS + 6 * MS + MS / 2);
    assert_int_equal(gf_load_relaxed(&shares.state_ns[gf_gpu_copying]), MS / 2);
    assert_int_equal(gf_load_relaxed(&shares.cause_ns[gf_host_file]), 5 * MS);
    assert_int_equal(gf_load_relaxed(&shares.cause_ns[gf_host_network]), 3 * MS + MS / 2);
    assert_int_equal(gf_load_relaxed(&shares.samples), 3);
    assert_int_equal(gf_load_relaxed(&shares.exact_ns), 0);
}

static void shares_sum_to_the_whole_time(void **state)
{
    struct gf_gpu_shares shares = {0};
    uint64_t at = 1;
    unsigned seed = 7;
    (void)state;

    for (unsigned i = 0; i < 10000; i++) {
        seed = seed * 1664525 + 1013904223;
        const struct gf_gpu_sample sample = {.at_ns = at,
                                             .state = (seed >> 8) % GF_GPU_STATE_COUNT,
                                             .cause = (seed >> 12) % GF_HOST_CAUSE_COUNT,
                                             .quiet = seed >> 31,
                                             .late = seed >> 16 & 1};
        gf_gpu_shares_add(&shares, &sample);
        at += 1 + (seed >> 10) % 9999;
    }
    assert_int_equal(sum(shares.state_ns, GF_GPU_STATE_COUNT), shares.last.at_ns - 1);
    assert_int_equal(sum(shares.cause_ns, GF_HOST_CAUSE_COUNT),
                     gf_load_relaxed(&shares.state_ns[gf_gpu_empty]));
}

static void a_late_sample_is_unknown_unless_nothing_was_submitted(void **state)
{
    struct gf_gpu_shares shares = {0};
    struct gf_gpu_sample sample = {
        .at_ns = 30 * MS, .state = gf_gpu_empty, .cause = gf_host_preempted, .late = true};
    (void)state;

    add(&shares, 10, gf_gpu_empty, gf_host_file);
    gf_gpu_shares_add(&shares, &sample);
    assert_int_equal(gf_load_relaxed(&shares.state_ns[gf_gpu_unknown]), 20 * MS);
    assert_int_equal(gf_load_relaxed(&shares.late_ns[gf_host_preempted]), 20 * MS);
    sample = (struct gf_gpu_sample){.at_ns = 70 * MS,
                                    .state = gf_gpu_empty,
                                    .cause = gf_host_paused,
                                    .quiet = true,
                                    .late = true};
    gf_gpu_shares_add(&shares, &sample);
    assert_int_equal(gf_load_relaxed(&shares.cause_ns[gf_host_paused]), 40 * MS);
    assert_int_equal(gf_load_relaxed(&shares.exact_ns), 40 * MS);
}

/* The start is between two fifths and a half of the whole time. */
static void the_start_is_at_most_half(void **state)
{
    struct gf_gpu_shares shares = {0};
    struct gf_gpu_start start;
    unsigned aged = 0;
    (void)state;

    for (uint64_t ms = 10; ms <= 100000; ms += 10) {
        const enum gf_host_cause cause = ms <= 30000 ? gf_host_import : gf_host_file;
        const struct gf_gpu_sample sample = {
            .at_ns = ms * MS, .state = gf_gpu_empty, .cause = cause};
        aged += gf_gpu_shares_add(&shares, &sample);
        gf_gpu_shares_start(&shares, &start);
        if (ms < 2000)
            assert_int_equal(start.ns, 0);
        else if (ms > 4000)
            assert_in_range(start.ns, ms * MS * 39 / 100, ms * MS / 2);
    }
    assert_int_equal(start.cause_ns[gf_host_import] + start.cause_ns[gf_host_file], start.ns);
    assert_in_range(start.cause_ns[gf_host_import], 29990 * MS, 30000 * MS);
    assert_in_range(aged, 19, 22); /* 1.25 to the power of 21 is 108 */
}

/* The gap after a wait for the GPU is that of what the thread does next, unless that is soon over. */
static void a_wait_is_decided_by_what_follows(void **state)
{
    struct gf_gpu_shares shares = {0};
    struct gf_gpu_sample sample = {
        .at_ns = 10 * MS, .state = gf_gpu_empty, .cause = gf_host_gpu_wait, .undecided = true};
    (void)state;

    add(&shares, 2, gf_gpu_queued, gf_host_other);
    gf_gpu_shares_add(&shares, &sample); /* 4 ms before it, 3 after it */
    assert_int_equal(gf_load_relaxed(&shares.state_ns[gf_gpu_empty]), 0);
    add(&shares, 16, gf_gpu_queued, gf_host_other);
    assert_int_equal(gf_load_relaxed(&shares.cause_ns[gf_host_gpu_wait]), 7 * MS);
    sample.at_ns = 20 * MS;
    gf_gpu_shares_add(&shares, &sample); /* 2 ms before it, 4 after it */
    sample = (struct gf_gpu_sample){
        .at_ns = 28 * MS, .state = gf_gpu_empty, .cause = gf_host_computing, .quiet = true};
    gf_gpu_shares_add(&shares, &sample);
    assert_int_equal(gf_load_relaxed(&shares.cause_ns[gf_host_gpu_wait]), 7 * MS);
    assert_int_equal(gf_load_relaxed(&shares.cause_ns[gf_host_computing]), 10 * MS);
    assert_int_equal(sum(shares.cause_ns, GF_HOST_CAUSE_COUNT),
                     gf_load_relaxed(&shares.state_ns[gf_gpu_empty]));
}

static void a_gap_ends_with_the_first_submission(void **state)
{
    static struct gf_submit_gap shared;
    static struct gf_gaps gaps = {.shared = &shared};
    struct gf_gpu_gap longest[GF_GAPS_LONGEST], open;
    (void)state;

    gf_gaps_see(&gaps, 10 * MS, 20 * MS, true, true);
    gf_gaps_cause(&gaps, gf_host_file);
    assert_true(gf_load_relaxed(&shared.open));
    gf_gaps_see(&gaps, 20 * MS, 25 * MS, true, true);
    gf_gaps_cause(&gaps, gf_host_file);
    gf_gaps_read(&gaps, longest, &open);
    assert_int_equal(longest[0].ns, 0);
    assert_int_equal(open.ns, 10 * MS);
    assert_int_equal(open.cause, gf_host_file);
    gf_store_relaxed(&shared.ended_ns, 45 * MS); /* as a hook stores it */
    gf_store_relaxed(&shared.ender, 77);
    gf_gaps_see(&gaps, 25 * MS, 50 * MS, true, false);
    assert_false(gf_load_relaxed(&shared.open));
    gf_gaps_read(&gaps, longest, &open);
    assert_int_equal(open.ns, 0);
    assert_int_equal(longest[0].start_ns, 15 * MS);
    assert_int_equal(longest[0].ns, 30 * MS);
    assert_int_equal(longest[0].ender, 77);
    assert_int_equal(longest[0].cause, gf_host_file);
    assert_int_equal(longest[1].ns, 0);
}

/*
 * The GPU is empty at both samples, but the program submitted work in between. So there are two
 * gaps.
 */
static void a_submission_between_two_empty_samples_ends_a_gap(void **state)
{
    static struct gf_submit_gap shared;
    static struct gf_gaps gaps = {.shared = &shared};
    (void)state;

    gf_gaps_see(&gaps, 0, 20 * MS, true, true);
    gf_store_relaxed(&shared.ended_ns, 21 * MS);
    gf_gaps_see(&gaps, 20 * MS, 25 * MS, true, true);
    assert_int_equal(gf_load_relaxed(&gaps.count), 1);
    assert_true(gf_load_relaxed(&shared.open));
    assert_int_equal(gf_load_relaxed(&shared.ended_ns), 0);
    assert_int_equal(gaps.since_ns, 23 * MS);
}

static void the_longest_gaps_are_kept_in_order(void **state)
{
    static struct gf_submit_gap shared;
    static struct gf_gaps gaps = {.shared = &shared};
    struct gf_gpu_gap longest[GF_GAPS_LONGEST], open;
    uint64_t now = 0;
    (void)state;

    for (unsigned i = 0; i < 50; i++) {
        gf_gaps_see(&gaps, now, now, true, true);
        now += (1 + i * 7 % 50) * MS;
        gf_gaps_see(&gaps, now, now, true, false);
    }
    gf_gaps_read(&gaps, longest, &open);
    for (unsigned i = 0; i < GF_GAPS_LONGEST; i++)
        assert_int_equal(longest[i].ns, (50 - i) * MS);
}

static void workers_are_judged_together(void **state)
{
    (void)state;
    /* idle, busy, storage, starved, asleep, waiting for a lock, unknown */
    assert_int_equal(gf_workers_judge((unsigned[]){3, 0, 0, 0, 0, 0, 0}, 8), gf_host_data);
    assert_int_equal(gf_workers_judge((unsigned[]){0, 0, 0, 0, 0, 0, 0}, 8), gf_host_data);
    assert_int_equal(gf_workers_judge((unsigned[]){1, 0, 0, 0, 0, 0, 2}, 8), gf_host_data);
    assert_int_equal(gf_workers_judge((unsigned[]){1, 2, 0, 0, 0, 0, 0}, 8), gf_host_few_workers);
    assert_int_equal(gf_workers_judge((unsigned[]){0, 8, 0, 0, 0, 0, 0}, 8), gf_host_transform);
    assert_int_equal(gf_workers_judge((unsigned[]){0, 1, 3, 0, 0, 0, 0}, 8), gf_host_storage);
    assert_int_equal(gf_workers_judge((unsigned[]){0, 2, 0, 6, 0, 0, 0}, 2), gf_host_worker_cpus);
    assert_int_equal(gf_workers_judge((unsigned[]){0, 0, 0, 0, 2, 0, 0}, 2), gf_host_workers_sleep);
    assert_int_equal(gf_workers_judge((unsigned[]){0, 1, 0, 0, 1, 0, 0}, 8), gf_host_few_workers);
    /* The one that sleeps holds the lock. */
    assert_int_equal(gf_workers_judge((unsigned[]){0, 0, 0, 0, 1, 7, 0}, 2), gf_host_workers_sleep);
    assert_int_equal(gf_workers_judge((unsigned[]){1, 0, 0, 0, 0, 1, 0}, 2), gf_host_workers_lock);
}

static void a_line_has_the_time_between_its_readings(void **state)
{
    static struct gf_cause_lines lines;
    struct gf_cause_line most[GF_HOST_CAUSE_COUNT];
    const struct gf_python_line load = {"train.py", "load", 7}, step = {"train.py", "step", 9};
    struct gf_idle_path path;
    unsigned count = 0, kept = 0;
    (void)state;

    gf_cause_lines_add(&lines, gf_host_data, 5 * MS);
    gf_cause_lines_see(&lines, gf_host_data, &load, "train.py:load", false, NULL);
    gf_cause_lines_add(&lines, gf_host_data, 2 * MS);
    gf_cause_lines_add(&lines, gf_host_file, 90 * MS);
    gf_cause_lines_see(&lines, gf_host_data, &step, "", false, NULL);
    gf_cause_lines_add(&lines, gf_host_data, 3 * MS);
    gf_cause_lines_see(&lines, gf_host_data, &load, "train.py:load", false, NULL);
    gf_cause_lines_read(&lines, most);
    assert_int_equal(most[gf_host_data].at.line, 7);
    assert_int_equal(most[gf_host_data].ns, 8 * MS);
    assert_int_equal(most[gf_host_file].at.line, 0);
    for (int i = 0; i < 100; i++) { /* more than fit into the list */
        const struct gf_python_line other = {"other.py", "f", i + 1};
        const char name[] = {(char)('a' + i / 10), (char)('a' + i % 10), '\0'};
        gf_cause_lines_see(&lines, gf_host_gil, &other, name, false, NULL);
    }
    gf_cause_lines_read(&lines, most);
    assert_int_equal(most[gf_host_data].at.line, 7);
    for (unsigned i = 0; gf_idle_path_read(&lines, i, &path); i++) {
        count++;
        if (path.cause == gf_host_data && strcmp(path.text, "train.py:load") == 0)
            assert_int_equal(path.ns, 8 * MS);
        else if (path.cause == gf_host_data)
            assert_string_equal(path.text, "...;train.py:step");
        kept += path.cause == gf_host_data;
    }
    assert_int_equal(kept, 2); /* new paths without time replace others without time */
    assert_int_equal(count, GF_IDLE_PATHS);
}

/* A sample after quick submissions is often in what the thread does next. */
static void a_line_that_computes_is_no_line_of_launches(void **state)
{
    static struct gf_cause_lines lines;
    static struct gf_cause_line most[GF_HOST_CAUSE_COUNT];
    const struct gf_python_line metric = {"eval.py", "distance", 51},
                                model = {"eval.py", "decode", 20};
    (void)state;

    gf_cause_lines_add(&lines, gf_host_computing, 50 * MS);
    gf_cause_lines_see(&lines, gf_host_computing, &metric, "", true, NULL);
    gf_cause_lines_add(&lines, gf_host_launches, 6 * MS);
    gf_cause_lines_see(&lines, gf_host_launches, &metric, "", true, NULL);
    gf_cause_lines_read(&lines, most);
    assert_int_equal(most[gf_host_computing].at.line, 51);
    assert_int_equal(most[gf_host_launches].at.line, 0);
    gf_cause_lines_add(&lines, gf_host_launches, MS);
    gf_cause_lines_see(&lines, gf_host_launches, &model, "", false, NULL);
    gf_cause_lines_read(&lines, most);
    assert_int_equal(most[gf_host_launches].at.line, 20);
}

static void a_lock_has_the_line_that_held_it_for_three_quarters_of_the_time(void **state)
{
    static struct gf_cause_lines lines;
    static struct gf_cause_line most[GF_HOST_CAUSE_COUNT];
    const struct gf_python_line own = {"/me/train.py", "step", 9},
                                held = {"/me/prepare.py", "seal", 51},
                                other = {"/me/prepare.py", "seal", 52}, none = {.line = 0};
    /* `held` replaces `other` at the third reading, and so counts for 12 of 16. */
    const struct gf_python_line *const seen[16] = {&other, &held, [6] = &none, [7] = &other};
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(seen); i++) {
        gf_cause_lines_add(&lines, gf_host_lock, MS);
        gf_cause_lines_see(&lines, gf_host_lock, &own, "", true, seen[i] ? seen[i] : &held);
        gf_cause_lines_read(&lines, most);
        assert_int_equal(most[gf_host_lock].at.line, 9);
        assert_int_equal(most[gf_host_lock].holder.line, i == 0 ? 52 : i == 15 ? 51 : 0);
    }
}

/* As the wait for compiler workers at the end of a program. */
static void a_line_of_a_library_gives_way_to_one_of_the_program(void **state)
{
    static struct gf_cause_lines lines;
    static struct gf_cause_line most[GF_HOST_CAUSE_COUNT];
    const struct gf_python_line own = {"/me/train.py", "step", 9},
                                library = {"/usr/lib/python3.12/subprocess.py", "_wait", 2047};
    (void)state;
    gf_cause_lines_add(&lines, gf_host_compile, 5 * MS);
    gf_cause_lines_see(&lines, gf_host_compile, &own, "", true, NULL);
    gf_cause_lines_add(&lines, gf_host_compile, 9 * MS);
    gf_cause_lines_see(&lines, gf_host_compile, &library, "", false, NULL);
    gf_cause_lines_add(&lines, gf_host_sleep, 9 * MS);
    gf_cause_lines_see(&lines, gf_host_sleep, &library, "", false, NULL);
    gf_cause_lines_read(&lines, most);
    assert_int_equal(most[gf_host_compile].at.line, 9);
    assert_int_equal(most[gf_host_compile].own_ns, 5 * MS);
    assert_int_equal(most[gf_host_sleep].at.line, 2047);
    assert_int_equal(most[gf_host_sleep].own_ns, 0);
}

static void files_of_packages_are_no_lines_of_the_program(void **state)
{
    (void)state;
    assert_true(gf_path_is_python_library("/usr/lib/python3.11/selectors.py"));
    assert_true(gf_path_is_python_library("/venv/lib/python3.12/site-packages/torch/nn/a.py"));
    assert_true(gf_path_is_python_library("/usr/lib/python3/dist-packages/numpy/a.py"));
    assert_true(gf_path_is_python_library("<frozen runpy>"));
    assert_true(gf_path_is_python_library("<__array_function__ internals>"));
    assert_true(gf_path_is_python_library("/usr/lib64/python3.9/selectors.py"));
    assert_true(gf_path_is_python_library(
        "/tmp/cache/sd/csd3g6hyiqug7me34wys723l4ctk3m5mvgmdhhgucd7xdqj53l4m.py"));
    assert_false(gf_path_is_python_library("/home/me/train.py"));
    assert_false(gf_path_is_python_library("/home/me/csd3g6hyiqug7me34wys723l4ctk3m5mvgm.py"));
    assert_false(gf_path_is_python_library("<string>"));
    assert_false(gf_path_is_python_library("<ipython-input-3-8e3b>"));
}

static _Atomic bool is_over;

static void *compute_forever(void *unused)
{
    while (!gf_load_relaxed(&is_over))
        ;
    return unused;
}

struct work {
    bool is_apart; /* the work ran on a thread of its own */
    uint64_t delay_ns;
};

static void compute_a_while(void *closure)
{
    struct work *const work = closure;
    const uint64_t start = gf_thread_cpu_ns();
    uint64_t run;

    work->is_apart = gf_own_table_on_short_thread();
    while (gf_thread_cpu_ns() - start < 50 * MS)
        ;
    work->delay_ns = gf_run_delay_read((pid_t)syscall(SYS_gettid), &run);
}

/* The reading and another thread share a CPU. */
static void a_reading_that_waits_for_a_cpu_is_counted(void **state)
{
    struct work work = {.is_apart = false};
    cpu_set_t before, one;
    pthread_t other;
    uint64_t ns;
    (void)state;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(pthread_create(&other, NULL, compute_forever, NULL), 0);
    assert_true(gf_measured_run(compute_a_while, &work, &ns));
    gf_store_relaxed(&is_over, true);
    pthread_join(other, NULL);
    sched_setaffinity(0, sizeof(before), &before);
    if (!work.is_apart || !work.delay_ns)
        skip_because("no thread of its own, or no run-queue delays");
    assert_true(ns >= 50 * MS);
    assert_true(gf_measured_run_delay() >= work.delay_ns);
}

/* Only intervals count in which the submitting thread had no CPU for more than half of the time. */
static void cpus_are_used_by_this_process_or_by_others(void **state)
{
    struct gf_cpu_use use;
    (void)state;

    gf_cpu_use_add(1000 * MS, 70 * MS, 900 * MS);
    gf_cpu_use_add(1010 * MS, 80 * MS, 905 * MS);
    gf_cpu_use_read(&use);
    assert_int_equal(use.ns, 0);
    gf_cpu_use_add(1020 * MS, 95 * MS, 911 * MS);
    gf_cpu_use_add(1030 * MS, 99 * MS, 911 * MS);
    gf_cpu_use_add(1060 * MS, 104 * MS, 941 * MS);
    gf_cpu_use_read(&use);
    assert_int_equal(use.ns, 40 * MS);
    assert_int_equal(use.own_ns, 20 * MS);
    assert_in_range(use.cpus, 1, sysconf(_SC_NPROCESSORS_ONLN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_judged_together),
        cmocka_unit_test(a_reading_that_waits_for_a_cpu_is_counted),
        cmocka_unit_test(cpus_are_used_by_this_process_or_by_others),
        cmocka_unit_test(a_line_has_the_time_between_its_readings),
        cmocka_unit_test(a_line_that_computes_is_no_line_of_launches),
        cmocka_unit_test(a_lock_has_the_line_that_held_it_for_three_quarters_of_the_time),
        cmocka_unit_test(a_line_of_a_library_gives_way_to_one_of_the_program),
        cmocka_unit_test(files_of_packages_are_no_lines_of_the_program),
        cmocka_unit_test(each_sample_stands_for_half_of_both_intervals),
        cmocka_unit_test(shares_sum_to_the_whole_time),
        cmocka_unit_test(a_late_sample_is_unknown_unless_nothing_was_submitted),
        cmocka_unit_test(the_start_is_at_most_half),
        cmocka_unit_test(a_wait_is_decided_by_what_follows),
        cmocka_unit_test(a_gap_ends_with_the_first_submission),
        cmocka_unit_test(a_submission_between_two_empty_samples_ends_a_gap),
        cmocka_unit_test(the_longest_gaps_are_kept_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
