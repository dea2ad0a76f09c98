/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of the exit summary: engine/report/summary.c and summary_time.c. */
#include "unit.h"

#include "engine/gputime/step_facts.h"
#include "engine/report/summary.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

static void use(struct gf_gpu_time_device *device, unsigned empty_s, unsigned queued_s)
{
    device->used = true;
    device->samples = 1000;
    device->state_ns[gf_gpu_empty] = empty_s * SECOND;
    device->state_ns[gf_gpu_queued] = queued_s * SECOND;
}

static void the_largest_three_causes_have_lines(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char text[2048];
    (void)state;

    use(device, 80, 20);
    device->cause_ns[gf_host_data] = 50 * SECOND;
    device->cause_ns[gf_host_file] = 20 * SECOND;
    device->cause_ns[gf_host_gil] = 6 * SECOND;
    device->cause_ns[gf_host_computing] = 4 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(
        text,
        "the GPU had nothing to do 80.0 % of 100.0 s\n"
        "  50.0 % waiting for data (use more DataLoader workers, or make their work cheaper)\n"
        "  20.0 % waiting for a file (read ahead in other threads or processes, or use "
        "faster storage)\n"
        "  6.0 % waiting for Python's GIL (move the work of other threads to "
        "processes)");
}

/* What happened in the start only is said last, and has no remedy. */
static void the_start_is_named(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char text[2048];
    (void)state;

    use(device, 80, 20);
    device->cause_ns[gf_host_computing] = 50 * SECOND;
    device->cause_ns[gf_host_file] = 25 * SECOND;
    device->cause_ns[gf_host_launches] = 3 * SECOND;
    device->cause_ns[gf_host_driver] = 2 * SECOND;
    device->start = (struct gf_gpu_start){.ns = 45 * SECOND - 1};
    device->start.cause_ns[gf_host_computing] = 46 * SECOND;
    device->start.cause_ns[gf_host_file] = 22 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text,
                        "the GPU had nothing to do 80.0 % of 100.0 s, 21.8 % after the first 45 s\n"
                        "  25.0 % waiting for a file, mostly in the first 45 s (read ahead in "
                        "other threads or processes, or use faster storage)\n"
                        "  3.0 % work too short for the launch rate\n"
                        "  2.0 % allocating or freeing in the driver\n"
                        "  50.0 % the submitting thread computed, in the first 45 s");
    device->start.cause_ns[gf_host_file] = 224 * SECOND / 10; /* later, less than 5 % of the time */
    device->cause_ns[gf_host_launches] = 0;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text,
                        "the GPU had nothing to do 80.0 % of 100.0 s, 21.1 % after the first 45 s\n"
                        "  25.0 % waiting for a file, mostly in the first 45 s\n"
                        "  2.0 % allocating or freeing in the driver\n"
                        "  50.0 % the submitting thread computed, in the first 45 s");
}

/* What is left without the longest gap decides whether it is worth a remedy. */
static void a_single_gap_has_no_remedy(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char buf[256];
    (void)state;

    use(device, 80, 20);
    device->cause_ns[gf_host_compile] = 30 * SECOND;
    device->longest[0] = (struct gf_gpu_gap){.ns = 20 * SECOND, .cause = gf_host_compile};
    assert_true(*gf_summary_gpu_time_remedy(&time, device, gf_host_compile, buf, sizeof(buf)));
    device->longest[0].ns = 27 * SECOND; /* 3 of the other 73 s are left */
    assert_false(*gf_summary_gpu_time_remedy(&time, device, gf_host_compile, buf, sizeof(buf)));
}

/* Time after the start comes first. The line of a wait for Python's GIL is its holder's. */
static void what_reaches_beyond_the_start_and_a_holder_are_named(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    const struct gf_python_line at = {"/me/train.py", "index", 9};
    char text[2048];
    (void)state;

    use(device, 60, 40);
    device->cause_ns[gf_host_import] = 30 * SECOND;
    device->cause_ns[gf_host_gil] = 20 * SECOND;
    device->line[gf_host_gil] = (struct gf_cause_line){.at = at, .holder = at, .ns = SECOND};
    device->cause_ns[gf_host_sleep] = 10 * SECOND;
    device->longest[0] = (struct gf_gpu_gap){.ns = 7 * SECOND, .cause = gf_host_sleep};
    device->start = (struct gf_gpu_start){.ns = 45 * SECOND};
    device->start.cause_ns[gf_host_import] = 24 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text,
                        "the GPU had nothing to do 60.0 % of 100.0 s\n"
                        "  20.0 % waiting for Python's GIL, while another thread was at "
                        "train.py:9 in index (move the work of other threads to processes)\n"
                        "  10.0 % the submitting thread slept, most of it in one gap of 7.0 s\n"
                        "  30.0 % importing modules, mostly in the first 45 s");
}

/* As a thread that has no CPU at times, while one long gap is a wait for data. */
static void a_gap_is_named_at_its_own_cause(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char text[1024];
    (void)state;

    use(device, 20, 80);
    device->cause_ns[gf_host_data] = 7 * SECOND;
    device->cause_ns[gf_host_preempted] = 4 * SECOND;
    device->longest[0] = (struct gf_gpu_gap){.ns = 7 * SECOND, .cause = gf_host_data};
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_non_null(strstr(text, "7.0 % waiting for data, most of it in one gap of 7.0 s\n"));
    assert_null(strstr(strstr(text, "4.0 %"), "one gap"));
}

/* What took the most time is said, even if less than three quarters of it was at the start. */
static void the_largest_cause_is_said(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char text[2048];
    (void)state;

    use(device, 70, 30);
    device->cause_ns[gf_host_file] = 30 * SECOND;
    device->cause_ns[gf_host_gil] = 9 * SECOND;
    device->cause_ns[gf_host_sleep] = 10 * SECOND;
    device->cause_ns[gf_host_network] = 11 * SECOND;
    device->start = (struct gf_gpu_start){.ns = 40 * SECOND};
    device->start.cause_ns[gf_host_file] = 22 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_non_null(strstr(text, "11.0 %"));
    assert_non_null(strstr(text, "\n  30.0 % waiting for a file"));
}

/* Long names of files and functions, and many large causes. */
static void long_lines_are_whole(void **state)
{
    static const enum gf_host_cause large[] = {
        gf_host_storage, gf_host_compile,     gf_host_checkpoint, gf_host_lock,
        gf_host_queue,   gf_host_few_workers, gf_host_import};
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char text[GF_SUMMARY_TEXT];
    (void)state;

    use(device, 90, 10);
    use(&time.device[1], 80, 20);
    device->start.ns = 45 * SECOND;
    for (size_t i = 0; i < GF_ARRAY_LEN(large); i++) {
        device->start.cause_ns[large[i]] = 11 * SECOND;
        device->cause_ns[large[i]] = 12 * SECOND;
        struct gf_cause_line *line = &device->line[large[i]];
        line->at =
            (struct gf_python_line){"/me/a_data_set_of_images_and_their_texts.py",
                                    "load_and_decode_and_augment_one_sample_of_the_set", 1234};
        line->holder = line->at;
    }
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_non_null(strstr(text, "GPU 1 had nothing to do 80.0 % of 100.0 s"));
}

/* It is not known which work to move, or the work is that of launches. */
static void only_the_programs_own_work_can_be_moved(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char buf[256];
    (void)state;

    use(device, 80, 20);
    device->cause_ns[gf_host_computing] = device->cause_ns[gf_host_optimizer] = 20 * SECOND;
    assert_false(*gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf)));
    assert_true(*gf_summary_gpu_time_remedy(&time, device, gf_host_optimizer, buf, sizeof(buf)));
    device->line[gf_host_computing] = (struct gf_cause_line){
        .ns = 20 * SECOND, .own_ns = 10 * SECOND, .at = {"/me/train.py", "step", 9}};
    assert_false(*gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf)));
    device->line[gf_host_computing].own_ns++;
    assert_true(*gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf)));
    device->line[gf_host_optimizer].at = (struct gf_python_line){"/me/train.py", "step", 8};
    gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf));
    assert_null(strstr(buf, "parameters"));
    device->line[gf_host_optimizer].at.line = 9;
    gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf));
    assert_non_null(strstr(buf, "keep the optimizer's parameters and state on the GPU"));
    device->cause_ns[gf_host_optimizer] =
        5 * SECOND; /* the optimizer's parameters may be on the GPU */
    gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf));
    assert_null(strstr(buf, "parameters"));
    device->line[gf_host_file_write].at = (struct gf_python_line){"/me/train.py", "step", 10};
    gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf));
    assert_string_equal(buf, "write in another thread or process"); /* not: to faster storage */
    device->line[gf_host_checkpoint] = device->line[gf_host_file_write];
    device->line[gf_host_file_write] = (struct gf_cause_line){0};
    gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf));
    assert_non_null(strstr(buf, "copy the state and save the copy in another thread"));
}

/* As tensors that are freed and modules that are unloaded when the program ends. */
static void the_end_has_no_remedy(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char buf[256];
    (void)state;

    use(device, 80, 20);
    device->cause_ns[gf_host_computing] = 30 * SECOND;
    device->line[gf_host_computing] = (struct gf_cause_line){
        .ns = 30 * SECOND, .own_ns = 30 * SECOND, .at = {"/me/train.py", "<module>", 105}};
    device->open = (struct gf_gpu_gap){.ns = 14 * SECOND, .cause = gf_host_computing};
    assert_true(*gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf)));
    device->cause_ns[gf_host_computing] = 15 * SECOND;
    assert_false(*gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf)));
    device->open.cause = gf_host_file;
    assert_true(*gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf)));
    device->cause_ns[gf_host_launches] = 20 * SECOND; /* but no line at which work is submitted */
    assert_false(*gf_summary_gpu_time_remedy(&time, device, gf_host_launches, buf, sizeof(buf)));
}

static void a_lock_has_the_line_of_its_holder(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char text[1024];
    (void)state;

    use(device, 20, 80);
    device->cause_ns[gf_host_lock] = 20 * SECOND;
    device->line[gf_host_lock].at = (struct gf_python_line){"/me/train.py", "step", 9};
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text,
                        "the GPU had nothing to do 20.0 % of 100.0 s\n"
                        "  20.0 % the submitting thread waited for a lock at train.py:9 in step");
    device->line[gf_host_lock].holder = (struct gf_python_line){"/me/prepare.py", "seal", 51};
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text,
                        "the GPU had nothing to do 20.0 % of 100.0 s\n"
                        "  20.0 % the submitting thread waited for a lock at train.py:9 in step, "
                        "while another thread was at prepare.py:51 in seal (let the other "
                        "thread hold the lock for less time)");
}

/* A GPU that was drained by waits is refilled by launches; these are not what to mend. */
static void launches_after_waits_have_no_remedy(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char buf[256];
    (void)state;

    use(device, 80, 20);
    device->cause_ns[gf_host_launches] = 20 * SECOND;
    device->cause_ns[gf_host_gpu_wait] = 19 * SECOND;
    assert_true(*gf_summary_gpu_time_remedy(&time, device, gf_host_launches, buf, sizeof(buf)));
    device->cause_ns[gf_host_driver] = 2 * SECOND;
    device->cause_ns[gf_host_computing] = 20 * SECOND;
    assert_false(*gf_summary_gpu_time_remedy(&time, device, gf_host_computing, buf, sizeof(buf)));
    assert_false(*gf_summary_gpu_time_remedy(&time, device, gf_host_launches, buf, sizeof(buf)));
    assert_true(*gf_summary_gpu_time_remedy(&time, device, gf_host_gpu_wait, buf, sizeof(buf)));
}

static const char *line_without_cpu(unsigned ms, unsigned own_ms, unsigned cpus)
{
    static struct gf_gpu_time time;
    static char text[2048];

    use(&time.device[0], 30, 70);
    time.device[0].cause_ns[gf_host_preempted] = 30 * SECOND;
    time.without_cpu = (struct gf_cpu_use){ms * (SECOND / 1000), own_ms * (SECOND / 1000), cpus};
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    return strstr(text, "30.0 % the submitting thread had no CPU") +
           strlen("30.0 % the submitting thread had no CPU");
}

static void a_thread_without_a_cpu_lost_it_to_this_process_or_to_others(void **state)
{
    (void)state;
    assert_string_equal(line_without_cpu(99, 50, 4),
                        " (request more CPUs, or run fewer threads, workers and other jobs)");
    assert_string_equal(line_without_cpu(2000, 6000, 4),
                        " (run fewer threads in this process, or request more CPUs; this process "
                        "used 3.0 of 4 CPUs meanwhile)");
    assert_string_equal(line_without_cpu(2000, 5000, 4),
                        " (request more CPUs, or run fewer threads, workers and other jobs; this "
                        "process used 2.5 of 4 CPUs meanwhile)");
    assert_string_equal(line_without_cpu(2000, 1000, 1),
                        " (run fewer workers and other jobs, or request more CPUs; this process "
                        "used 0.5 of 1 CPU meanwhile)");
    /* Its other threads may use more CPUs than its main thread. */
    assert_string_equal(line_without_cpu(2000, 9000, 4),
                        " (request more CPUs, or run fewer threads, workers and other jobs)");
}

static void communication_has_a_line(void **state)
{
    static struct gf_gpu_time time;
    char text[2048];
    (void)state;

    use(&time.device[0], 0, 75);
    time.device[0].state_ns[gf_gpu_communicating] = 25 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text, "the GPU had nothing to do 0.0 % of 100.0 s\n"
                              "only communication 25.0 % of the time, which includes waits for "
                              "other ranks");
}

/* On a busy machine most samples are late, and the answer is that the machine is busy. */
static void unknown_time_has_a_reason(void **state)
{
    static struct gf_gpu_time time;
    struct gf_gpu_time_device *device = &time.device[0];
    char text[2048];
    (void)state;

    use(device, 0, 20);
    device->state_ns[gf_gpu_unknown] = 80 * SECOND;
    device->late_ns[gf_host_preempted] = 30 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text, "the GPU had nothing to do 0.0 % of 100.0 s; not known 80.0 %");
    device->late_ns[gf_host_preempted] = 60 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text, "the GPU had nothing to do 0.0 % of 100.0 s; not known 80.0 % (all "
                              "CPUs were busy; request more, or run fewer threads and processes)");
}

static unsigned count_lines(const char *text)
{
    unsigned lines = 1;
    for (; (text = strchr(text, '\n')); text++)
        lines++;
    return lines;
}

/*
 * The summary has at most twelve lines. GPU time leaves seven of them for copies, stalls and
 * placement.
 */
static void several_gpus_begin_with_the_emptiest(void **state)
{
    static struct gf_gpu_time time;
    char text[2048];
    (void)state;

    for (unsigned i = 0; i < 8; i++) {
        use(&time.device[i], i == 5 ? 60 : 10 + i, 40);
        for (unsigned cause = 0; cause < GF_HOST_CAUSE_COUNT; cause++)
            time.device[i].cause_ns[cause] = SECOND * (2 + cause);
    }
    time.device[5].state_ns[gf_gpu_communicating] = 9 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_ptr_equal(strstr(text, "GPU 5 had nothing to do"), text);
    assert_non_null(strstr(text, "\nGPU 7 had nothing to do"));
    assert_non_null(strstr(text, "\nGPU 6 had nothing to do"));
    assert_null(strstr(text, "GPU 4 "));
    assert_int_equal(count_lines(text), 7);

    time.device[5].state_ns[gf_gpu_copying] = 30 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_non_null(strstr(text, " % only copies ran (copy the next batch while the GPU works"));
    assert_int_equal(count_lines(text), 7);
    time.device[5].state_ns[gf_gpu_copying] = 3 * SECOND;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_null(strstr(text, "only copies ran"));
}

static void few_samples_say_nothing(void **state)
{
    static struct gf_gpu_time time;
    char text[2048];
    (void)state;

    use(&time.device[0], 80, 20);
    time.device[0].samples = 5;
    gf_summary_gpu_time(&time, GF_TEST_INTO(text));
    assert_string_equal(text, "");
}

static struct gf_stall_count stalls[GF_CAUSE_COUNT];

static void count_stalls(struct gf_stall_count ret[GF_CAUSE_COUNT])
{
    memcpy(ret, stalls, sizeof(stalls));
}

static bool has_log;

static bool log_wanted(void)
{
    return has_log;
}

static void stalls_and_their_absence_have_a_line(void **state)
{
    static struct gf_options options = {.stall_us = 1000};
    static const struct gf_preload preload = {
        .options = &options, .stall_counts = count_stalls, .log_wanted = log_wanted};
    static struct gf_report report;
    char line[256];
    (void)state;

    report.preload = &preload;
    report.ran_ms = 190000;
    gf_summary_stalls(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "no stall above 1 ms in 3 min");
    stalls[gf_cause_map] = (struct gf_stall_count){3, 40500};
    stalls[gf_cause_gpu] = (struct gf_stall_count){1, 2000};
    gf_summary_stalls(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "4 stalls above 1 ms in 3 min took 42.5 ms: map 40.5 ms, gpu 2.0 ms "
                              "(GPUFEED_LOG=FILE records each of them)");
    stalls[gf_cause_unknown] = (struct gf_stall_count){1, 3000000};
    stalls[gf_cause_throttled] = (struct gf_stall_count){1, 1000};
    has_log = true;
    options.stall_us = 1500;
    report.ran_ms = 9999;
    gf_summary_stalls(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "6 stalls above 1500 us in 9.9 s took 3.0 s: unknown 3.0 s, map 40.5 "
                              "ms, gpu 2.0 ms");
    report.ran_ms = 850;
    gf_summary_stalls(&report, GF_TEST_INTO(line));
    assert_string_equal(strstr(line, " in "), " in 850 ms took 3.0 s: unknown 3.0 s, map 40.5 ms, "
                                              "gpu 2.0 ms");
    options.stall_us = 0;
    gf_summary_stalls(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "");
}

static struct gf_step_times step_times;

static void read_step_times(struct gf_step_times *ret)
{
    *ret = step_times;
}

static const struct gf_preload with_steps = {.step_times = read_step_times};

#define FACT(fact) (GF_CAUSE_COUNT + (unsigned)(fact))
#define MS UINT64_C(1000000)

/* The slowest step names what was different in it. */
static void steps_have_a_line(void **state)
{
    static struct gf_report report;
    struct gf_gpu_time_device *device = &report.gpu_time.device[1];
    uint64_t *facts = step_times.slow[0].facts.value, *typical = step_times.typical.value;
    char line[512];
    (void)state;

    report.preload = &with_steps;
    gf_summary_steps(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "");
    step_times = (struct gf_step_times){.source = gf_step_marks,
                                        .steps = 100,
                                        .total_ns = 5000000000,
                                        .p50_ns = 40000000,
                                        .p99_ns = 90000000,
                                        .max_ns = 500000000};
    gf_summary_steps(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "100 steps: median 40.0 ms, p99 90.0 ms, longest 500.0 ms");
    step_times.steps = 99;
    gf_summary_steps(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "99 steps: median 40.0 ms, longest 500.0 ms");
    step_times.steps = 100;
    step_times.source = gf_step_copies;
    step_times.bytes = 64 << 20;
    step_times.slow[0].start_ns = 1000 * MS;
    step_times.slow[0].ns = 500 * MS;
    device->used = true;
    device->state_ns[gf_gpu_empty] = 600;
    device->state_ns[gf_gpu_queued] = 400;
    device->cause_ns[gf_host_storage] = 200;
    facts[FACT(GF_STEP_FACT_IDLE + gf_host_gil)] = 300 * MS;
    facts[FACT(GF_STEP_FACT_IDLE + gf_host_storage)] = 310 * MS;
    typical[FACT(GF_STEP_FACT_IDLE + gf_host_storage)] = 20 * MS;
    gf_summary_steps(&report, GF_TEST_INTO(line));
    assert_string_equal(line,
                        "100 steps (a copy of 64 MiB to the GPU begins each): median 40.0 ms, p99 "
                        "90.0 ms, longest 500.0 ms, in which the GPU had nothing to do for 300.0 "
                        "ms: waiting for Python's GIL; the mean step waits 10.0 ms for data");
    /* Idle time of less than a quarter of the excess does not explain the step. */
    memset(facts, 0, sizeof(step_times.slow[0].facts));
    facts[FACT(GF_STEP_FACT_IDLE + gf_host_gil)] = 100 * MS;
    device->cause_ns[gf_host_storage] = 2;
    gf_summary_steps(&report, GF_TEST_INTO(line));
    assert_string_equal(strstr(line, "longest"), "longest 500.0 ms");
}

static const char *slowest_of(unsigned fact, uint64_t value, uint64_t typical)
{
    static struct gf_report report = {.preload = &with_steps};
    static char line[512];

    step_times.slow[0].facts.value[fact] = value;
    step_times.typical.value[fact] = typical;
    gf_summary_steps(&report, GF_TEST_INTO(line));
    return strstr(line, "longest 500.0 ms") + strlen("longest 500.0 ms");
}

/* Each fact adds to those before. A more specific fact explains an idle GPU, too. */
static void slow_steps_have_causes(void **state)
{
    (void)state;
    memset(&step_times, 0, sizeof(step_times));
    step_times = (struct gf_step_times){
        .source = gf_step_marks, .steps = 99, .p50_ns = 40 * MS, .max_ns = 500 * MS};
    step_times.slow[0].ns = 500 * MS;
    assert_string_equal(slowest_of(FACT(gf_step_fact_queued), 450 * MS, 20 * MS),
                        ", in which the GPU had work for 450.0 ms");
    assert_string_equal(slowest_of(FACT(gf_step_fact_queued), 450 * MS, 400 * MS), "");
    assert_string_equal(slowest_of(FACT(GF_STEP_FACT_IDLE + gf_host_computing), 400 * MS, 0),
                        ", in which the GPU had nothing to do for 400.0 ms: the submitting thread "
                        "computed");
    assert_string_equal(slowest_of(FACT(gf_step_fact_communicating), 300 * MS, 0),
                        ", in which only communication was unfinished for 300.0 ms: another rank "
                        "may have been late");
    assert_string_equal(slowest_of(FACT(gf_step_fact_minor), 800000, 1000),
                        ", with 800000 page faults");
    assert_string_equal(slowest_of(FACT(gf_step_fact_minor), 800000, 700000) + 2,
                        "in which only communication was unfinished for 300.0 ms: another rank may "
                        "have been late");
    assert_string_equal(slowest_of(FACT(gf_step_fact_major), 3000, 10),
                        ", with 803000 page faults, 3000 of them with I/O");
    assert_string_equal(slowest_of(FACT(gf_step_fact_throttled), 2000 * MS, 10 * MS),
                        ", in which the CPU quota stopped threads for 2000.0 ms");
    assert_string_equal(slowest_of(gf_cause_purge, 251 * MS, 0),
                        ", in which calls stalled for 251.0 ms: purge");
}

static struct gf_copy_waits copy_waits;

static void read_copy_waits(struct gf_copy_waits *ret)
{
    *ret = copy_waits;
}

/* Names the line with the longest waits, if they take at least 1 % of the time of the steps. */
static void waiting_copies_have_a_part(void **state)
{
    static struct gf_options options = {.copy_wait_us = 0};
    static const struct gf_preload preload = {
        .options = &options, .step_times = read_step_times, .copy_waits = read_copy_waits};
    static struct gf_report report = {.ran_ms = 1000};
    char line[512];
    (void)state;

    report.preload = &preload;
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "");
    options.copy_wait_us = 1;
    step_times = (struct gf_step_times){.source = gf_step_marks, .total_ns = 10 * SECOND};
    copy_waits = (struct gf_copy_waits){.from_device = {9, 9 << 20, SECOND * 45 / 100}};
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "; copies from the GPU waited 4.5 % of the time for earlier work of "
                              "their stream (copy into pinned memory with non_blocking=True, and "
                              "use the result after the next step's work is submitted)");
    report.gpu_time.device[1].state_ns[gf_gpu_empty] = 9;
    report.gpu_time.device[1].state_ns[gf_gpu_queued] = 91;
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "; copies from the GPU waited 4.5 % of the time for earlier work of "
                              "their stream");
    report.gpu_time.device[1].state_ns[gf_gpu_empty] = 90;
    report.gpu_time.device[1].cause_ns[gf_host_computing] = 50;
    report.gpu_time.device[1].cause_ns[gf_host_gpu_wait] = 40;
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_null(strchr(line, '('));
    report.gpu_time.device[1].cause_ns[gf_host_gpu_wait] = 45;
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_non_null(strstr(line, "(copy into pinned memory"));
    report.gpu_time.device[1].cause_ns[gf_host_gpu_wait] = 0;
    report.gpu_time.device[1].state_ns[gf_gpu_empty] = 9;
    report.gpu_time.device[1].state_ns[gf_gpu_unknown] = 11;
    copy_waits.lines = 2;
    copy_waits.line[0] =
        (struct gf_copy_wait_line){false, {"/a/b/train.py", "evaluate", 3}, {1, 1, SECOND / 10}};
    copy_waits.line[1] =
        (struct gf_copy_wait_line){true, {"/a/b/train.py", "step", 12}, {2, 2, SECOND / 5}};
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "; copies to the GPU at train.py:12 in step waited 2.0 % of the time "
                              "for earlier work of their stream (pin the source and pass "
                              "non_blocking=True, or copy before that work is submitted)");
    step_times.total_ns = 21 * SECOND;
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_string_equal(line, "");
    step_times.source = gf_step_none;
    gf_summary_copy_waits(&report, GF_TEST_INTO(line));
    assert_non_null(strstr(line, " waited 20.0 % of the time"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_three_causes_have_lines),
        cmocka_unit_test(the_start_is_named),
        cmocka_unit_test(a_single_gap_has_no_remedy),
        cmocka_unit_test(a_gap_is_named_at_its_own_cause),
        cmocka_unit_test(the_largest_cause_is_said),
        cmocka_unit_test(long_lines_are_whole),
        cmocka_unit_test(what_reaches_beyond_the_start_and_a_holder_are_named),
        cmocka_unit_test(only_the_programs_own_work_can_be_moved),
        cmocka_unit_test(the_end_has_no_remedy),
        cmocka_unit_test(a_lock_has_the_line_of_its_holder),
        cmocka_unit_test(launches_after_waits_have_no_remedy),
        cmocka_unit_test(a_thread_without_a_cpu_lost_it_to_this_process_or_to_others),
        cmocka_unit_test(communication_has_a_line),
        cmocka_unit_test(unknown_time_has_a_reason),
        cmocka_unit_test(several_gpus_begin_with_the_emptiest),
        cmocka_unit_test(few_samples_say_nothing),
        cmocka_unit_test(stalls_and_their_absence_have_a_line),
        cmocka_unit_test(steps_have_a_line),
        cmocka_unit_test(slow_steps_have_causes),
        cmocka_unit_test(waiting_copies_have_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
