/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "host/tasks.h"
#include "transfer/pinned_stats.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct gf_process gf_process;

/* Hooks. Any thread of the program, perhaps under the loader's lock. */

static void device_seen(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    struct gf_choice *choice = &gf_process.choice;

    if (gf_dead())
        return;
    if (how == gf_sighting_memory && gf_choice_memory(choice, device, bytes))
        gf_serve(gf_want_decide);
    /* Memory too where the context itself was made before the engine was there. */
    if ((how != gf_sighting_memory || !__atomic_load_n(&choice->contexts, __ATOMIC_RELAXED)) &&
        gf_choice_context(choice, device)) {
        gf_serve(gf_want_decide);
        sem_post(&gf_process.wake); /* from now on this process reports */
    }
    gf_thread_settle(true);
}

/* The calling thread's share of what gf_engine_start found on ours. It may have a context already. */
static void joined(void)
{
    const struct gf_cuda *cuda = gf_process.door->cuda;
    CUcontext context = NULL;
    CUdevice device;

    if (gf_dead())
        return;
    const int error = errno;
    gf_thread_take_back();
    if (cuda->cuCtxGetCurrent && cuda->cuCtxGetDevice &&
        cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS)
        device_seen(device, gf_sighting_current, 0);
    gf_thread_settle(true);
    errno = error;
}

static void thread_born(void)
{
    if (!gf_dead())
        gf_thread_settle(false);
}

static void forked(void)
{
    __atomic_store_n(&gf_process.dead, true, __ATOMIC_RELAXED);
}

static int gpu_node(void)
{
    const struct gf_placement *placement = gf_placement();
    return placement ? placement->node : -1;
}

static struct gf_engine engine = {
    .abi = GF_ENGINE_ABI,
    .size = sizeof(engine),
    .device_seen = device_seen,
    .joined = joined,
    .watch = gf_thread_watch,
    .thread_born = thread_born,
    .forked = forked,
    .gpu_node = gpu_node,
};

/* Start. */

static void complain(void *closure, const char *line)
{
    (void)closure;
    gf_warn("%s", line);
}

static void read_program(char *ret, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", ret, size - 1);
    ret[length < 0 ? 0 : length] = '\0';
}

/*
 * The mask before anything: what the door recorded at birth, unless somebody else has narrowed
 * this process since (a launcher its forked child, taskset -p). If it was inherited from a process
 * that bound, and only then, it is what that process had before. The caller of cuInit has the
 * mask of the program; this thread has it by inheritance, and its memory policy.
 */
static void find_start(const struct gf_door *door, struct gf_cpus *ret)
{
    struct gf_process *p = &gf_process;
    struct gf_cpus now = {0};

    *ret = door->birth->cpus;
    if (door->thread_class(door->caller) == gf_thread_program &&
        syscall(SYS_sched_getaffinity, door->caller, sizeof(now), &now) > 0)
        *ret = now;
    if (door->options->mode == gf_mode_observe || gf_hint_read(environ, &p->hint) != 0 ||
        !gf_set_equal(ret, &p->hint.set))
        return;
    p->hinted = true;
    *ret = p->hint.was;
    gf_thread_take_back();
}

static void read_machine(const struct gf_door *door)
{
    struct gf_process *p = &gf_process;
    struct gf_cpus start;

    find_start(door, &start);
    gf_facts_gather("", environ, &start, &p->facts);
    /* What was allowed when the hint was written may not be allowed now. */
    if (p->hinted && gf_set_meet(&start, &p->facts.cpuset))
        gf_set_and(&p->facts.start, &start, &p->facts.cpuset);
    p->machine_error = gf_machine_load(door->options->machine, &p->machine);
    if (p->machine_error)
        gf_warn("cannot read the machine%s%s: %s; nothing is bound",
                *door->options->machine ? " recorded in " : "", door->options->machine,
                strerrordesc_np(-p->machine_error));
}

static void prepare_report(const struct gf_door *door)
{
    struct gf_process *p = &gf_process;
    struct gf_report *report = &p->report;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    report->version = door->version;
    report->pid = p->pid;
    report->started_s = (uint64_t)now.tv_sec;
    report->options = door->options;
    report->machine = p->machine;
    report->machine_error = p->machine_error;
    report->facts = &p->facts;
    report->hint = p->hinted ? &p->hint : NULL;
    report->heap = door->heap;
    report->each_hook = door->each_hook;
    if (door->log_wanted())
        report->log_count = door->log_count;
    report->stall_counts = door->stall_counts;
    report->each_latency = door->each_latency;
    report->costs.start_us = (gf_now_ns() - p->started_ns) / 1000;
    read_program(report->program, sizeof(report->program));
}

/* One visible GPU, or a rank. */
static void catch_up(const struct gf_cuda *cuda)
{
    struct gf_process *p = &gf_process;
    int count = 0;

    if (cuda->cuDeviceGetCount && cuda->cuDeviceGetCount(&count) == CUDA_SUCCESS &&
        gf_choice_preset(&p->choice, count, p->facts.rank.local_rank, p->facts.rank.local_size))
        gf_serve(gf_want_decide);
}

static enum gf_log_level log_level(const struct gf_door *door)
{
    const unsigned verbose = door->options->verbose;
    return door->birth->mute ? GF_LOG_SILENT
           : verbose >= 2    ? GF_LOG_DEBUG
           : verbose == 1    ? GF_LOG_INFO
                             : GF_LOG_WARN;
}

GF_EXPORT gf_engine_start_fn gf_engine_start;

/* Once, after the first successful cuInit, on our thread. NULL: no engine. */
GF_EXPORT const struct gf_engine *gf_engine_start(const struct gf_door *door)
{
    struct gf_process *p = &gf_process;

    if (door->abi != GF_ENGINE_ABI || door->size != sizeof(*door) || p->door ||
        door->options->mode == gf_mode_off)
        return NULL;
    const int error = errno;
    p->door = door;
    p->pid = getpid();
    p->watcher = (pid_t)syscall(SYS_gettid);
    p->started_ns = gf_now_ns();
    p->cuda_since = gf_tasks_now();
    sem_init(&p->wake, 0, 0);
    gf_log_set_level(log_level(door));
    gf_options_complain(environ, false, complain, NULL);
    read_machine(door);
    prepare_report(door);
    gf_output_check();
    if (p->machine && p->machine->node_count > 1)
        gf_nvml_read();
    engine.transfer = gf_transfers();
    catch_up(door->cuda);
    errno = error;
    return &engine;
}

static void sum_up(void)
{
    struct gf_process *p = &gf_process;
    char text[960]; /* of a line's 1024 */

    gf_output_sample(true);
    __atomic_store_n(&p->dead, true, __ATOMIC_RELAXED);
    gf_output_report(true);
    gf_pinned_say();
    if (gf_log_wants(GF_LOG_INFO) && p->choice.contexts) {
        gf_summary_exit(&p->report, text, sizeof(text));
        gf_info("%s", text);
        gf_transfer_report_say(&p->report.transfers, p->report.each_hook, text, sizeof(text));
        if (*text)
            gf_info("%s", text);
    }
    gf_transfers_say();
}

/* At a normal exit. The library's thread may be in the midst of something: a moment for the pen. */
__attribute__((destructor)) static void end(void)
{
    const struct gf_process *p = &gf_process;

    if (!p->door)
        return;
    if (!gf_dead() && getpid() == p->pid && gf_decision() && gf_pen_take(200))
        sum_up();
    p->door->log_finish();
}
