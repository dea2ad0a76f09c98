/* SPDX-License-Identifier: Apache-2.0 */
/* How often the sampler samples, and what it sees: engine/gputime/sampler.c, with clocks that a test sets. */
#include "unit.h"

#include "base/atomic.h"
#include "engine/gputime/sampler.h"

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
#define SAMPLES 2000u /* of each phase, many more than the interval needs to settle */
#define PHASES 3u

/* The share of a CPU that the sampler uses in each phase, in thousandths. */
static const uint64_t share[PHASES] = {30, 6, 1};

static struct {
    _Atomic uint64_t now_ns, cpu_ns;
    unsigned sleeps;
    sem_t end;
} fake;
static uint64_t *interval_us; /* at the end of each phase; shared with a child process */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_THREAD_CPUTIME_ID)
        return __real_clock_gettime(clock, ret);
    const uint64_t ns = gf_load_relaxed(clock == CLOCK_MONOTONIC ? &fake.now_ns : &fake.cpu_ns);
    *ret = (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    return 0;
}

/*
 * A program that submits a burst of work, waits for it, and goes on soon. The sampler sees it after the
 * wait, and looks a second time when it has gone on.
 */
static struct gf_submit_table table;
static bool program_waits;

static void submit_and_wait(void)
{
    struct gf_submitter *const own = &table.submitters[0];
    gf_store_relaxed(&own->begun, gf_load_relaxed(&own->begun) + 1000);
    gf_store_relaxed(&own->ended, gf_load_relaxed(&own->begun));
    gf_store_relaxed(&own->waited, gf_load_relaxed(&own->begun));
    gf_store_relaxed(&own->waits, gf_load_relaxed(&own->waits) + 1);
}

int __wrap_nanosleep(const struct timespec *length, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *length, struct timespec *rest)
{
    (void)rest;
    gf_add_relaxed(&fake.now_ns, (uint64_t)length->tv_nsec);
    gf_add_relaxed(&table.submitters[0].begun, 1);
    gf_add_relaxed(&table.submitters[0].ended, 1);
    gf_store_release(&table.gaps[0].ended_ns, gf_load_relaxed(&fake.now_ns));
    return 0;
}

/* Called by the sampler before each sample. The sampler ends if it cannot sleep. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *length,
                           struct timespec *rest);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *length,
                           struct timespec *rest)
{
    const uint64_t ns = (uint64_t)length->tv_sec * SECOND + (uint64_t)length->tv_nsec;
    const unsigned phase = fake.sleeps / SAMPLES;
    (void)clock, (void)flags, (void)rest;

    if (fake.sleeps && fake.sleeps % SAMPLES == 0) {
        struct gf_gpu_time found;
        gf_sampler_read(&found);
        interval_us[phase - 1] = found.interval_us;
    }
    if (phase == PHASES) {
        sem_post(&fake.end);
        return ENOSYS;
    }
    fake.sleeps++;
    if (program_waits)
        submit_and_wait();
    gf_add_relaxed(&fake.now_ns, ns);
    gf_add_relaxed(&fake.cpu_ns, ns * share[phase] / 1000);
    return 0;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

static CUresult read_context(CUcontext *ret)
{
    *ret = NULL;
    return CUDA_SUCCESS;
}

static CUresult read_device(CUdevice *ret)
{
    *ret = 0;
    return CUDA_SUCCESS;
}

static CUresult query(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static void end_lost_calls(void)
{
}

static void take_facts(uint64_t now, const uint64_t facts[GF_STEP_ENGINE_FACTS])
{
    (void)now, (void)facts;
}

static void take_graph(uint64_t ns, uint64_t graph)
{
    (void)ns, (void)graph;
}

static void run_phases(unsigned hz)
{
    static const struct gf_cuda cuda = {.cuThreadExchangeStreamCaptureMode = exchange_mode,
                                        .cuCtxGetCurrent = read_context,
                                        .cuCtxSetCurrent = set_current,
                                        .cuCtxGetDevice = read_device,
                                        .cuStreamQuery = query};
    static const struct gf_heap_ops heap;
    static struct gf_options options;
    static const struct gf_preload preload = {.options = &options,
                                              .cuda = &cuda,
                                              .heap = &heap,
                                              .submissions = &table,
                                              .end_lost_calls = end_lost_calls,
                                              .step_facts = take_facts,
                                              .step_graph = take_graph};

    options.gpu_time = hz;

    fake.now_ns = SECOND;
    sem_init(&fake.end, 0, 0);
    gf_sampler_prepare(&preload, NULL, NULL);
    gf_sampler_start();
    while ((program_waits ? sem_trywait : sem_wait)(&fake.end) == -1)
        ; /* the thread computes */
}

/* A process has one sampler, so each rate needs a process. */
static void sample_in_child(unsigned hz)
{
    int status;

    memset(interval_us, 0, PHASES * sizeof(*interval_us));
    const pid_t child = fork();
    if (child == 0) {
        run_phases(hz);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void costly_samples_become_rarer_and_cheap_ones_frequent(void **state)
{
    (void)state;
    sample_in_child(100);
    assert_int_equal(interval_us[0], 200000); /* the longest interval */
    assert_int_equal(interval_us[1], 200000);
    assert_int_equal(interval_us[2], 10000);
}

static void a_rate_that_the_user_asked_for_stays(void **state)
{
    (void)state;
    sample_in_child(2000);
    for (unsigned phase = 0; phase < PHASES; phase++)
        assert_int_equal(interval_us[phase], 500);
}

static void a_program_that_goes_on_after_a_wait_still_waited(void **state)
{
    struct gf_gpu_time found;
    int status;

    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        program_waits = true;
        gf_store_relaxed(&table.contexts[0].context, (uintptr_t)&table);
        run_phases(100);
        gf_sampler_read(&found);
        const struct gf_gpu_time_device *const device = &found.device[0];
        _exit(!device->cause_ns[gf_host_gpu_wait] || device->cause_ns[gf_host_launches]);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costly_samples_become_rarer_and_cheap_ones_frequent),
        cmocka_unit_test(a_rate_that_the_user_asked_for_stays),
        cmocka_unit_test(a_program_that_goes_on_after_a_wait_still_waited),
    };
    interval_us = mmap(NULL, PHASES * sizeof(*interval_us), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
