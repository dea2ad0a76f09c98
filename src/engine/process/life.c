/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of the engine. */
#include "abi/engine_api.h"
#include "abi_hash.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "config/option_text.h"
#include "engine/process/duties.h"
#include "engine/process/process_state.h"
#include "engine/process/thread_binding.h"
#include "engine/report/summary.h"
#include "engine/transfer/copy/transfer_ops.h"
#include "host/gpu.h"
#include "host/machine_load.h"
#include "host/tasks.h"
#include "os/launch.h"
#include "os/permit.h"

/* Prints each line of the text as a line of its own, and empties the text. */
static void print_lines(struct gf_textbuf *text)
{
    for (char *rest = text->at ? text->buf : NULL, *line; (line = strsep(&rest, "\n"));)
        if (*line)
            gf_info("%s", line);
    text->at = 0;
}

/*
 * Prints the summary, with the most important lines first: where the GPU's time went, then copies,
 * stalls and the placement.
 */
static void print_summary(const struct gf_report *report)
{
    char buf[GF_SUMMARY_TEXT];
    struct gf_textbuf text = {buf, sizeof(buf), 0};

    gf_summary_gpu_time(&report->gpu_time, &text);
    print_lines(&text);
    gf_summary_mps(&report->decision, &text);
    print_lines(&text);
    gf_summary_steps(report, &text);
    print_lines(&text);
    gf_summary_transfers(&report->transfers, report->preload->hook_counts, &text);
    gf_summary_copy_waits(report, &text);
    print_lines(&text);
    gf_summary_stalls(report, &text);
    print_lines(&text);
    gf_growth_say(&report->growth, &text);
    print_lines(&text);
    gf_summary_exit(report, &text);
    print_lines(&text);
}

/*
 * Ends the engine without a last report and summary. Called if another thread holds the report lock
 * for too long, for example because a file system does not respond. After the call, the engine
 * makes no query and replaces no file.
 */
static void gf_exit_summary_skip(void)
{
    const struct gf_process *p = &gf_process;

    if (gf_load_relaxed(&p->choice.contexts) && *p->preload->options->report)
        gf_warn("GPUFEED_REPORT: %s: the library's thread did not respond; the last report is lost",
                p->preload->options->report);
    gf_store_relaxed(&gf_process.dead, true);
    gf_sampler_stop();
}

/*
 * Ends the engine at a normal exit: writes the last report, and prints the summary with
 * GPUFEED_VERBOSE=1. The caller holds the report lock.
 */
static void gf_exit_summary_run(void)
{
    struct gf_process *p = &gf_process;

    gf_output_sample(true);
    gf_store_relaxed(&p->dead, true);
    gf_sampler_stop();
    gf_intervals_end();
    gf_output_report(true);
    if (gf_log_wants(GF_LOG_INFO) && p->choice.contexts)
        print_summary(&p->report);
    gf_transfers_print();
}

/* Hooks call this function on any thread of the program, possibly under the loader's lock. */
static void on_device_seen(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    struct gf_choice *choice = &gf_process.choice;

    if (gf_process_dead())
        return;
    if (how == gf_sighting_memory && gf_choice_memory(choice, device, bytes))
        gf_requests_serve(gf_request_decide);
    /*
     * An allocation proves that a context exists, even if it was created before the engine was
     * loaded.
     */
    if ((how != gf_sighting_memory || !gf_load_relaxed(&choice->contexts)) &&
        gf_choice_context(choice, device)) {
        gf_requests_serve(gf_request_decide);
        /* Wakes the library's thread: with the first context, a report is due. */
        sem_post(&gf_process.wake);
    }
    gf_thread_binding_settle(true);
    gf_start_options_openmp();
}

static void on_work_seen(void)
{
    sem_post(&gf_process.wake); /* wakes the library's thread, which then starts the sampler */
}

/* Whether the program has called a function that allocates pinned memory. */
static bool has_allocated(void)
{
    struct gf_hook_counts counts;
    bool ret = false;

    for (size_t i = 0; gf_process.preload->hook_counts(i, &counts); i++)
        ret |= counts.calls && (strcmp(counts.name, "cuMemHostAlloc") == 0 ||
                                strcmp(counts.name, "cuMemAllocHost_v2") == 0);
    return ret;
}

/* Applies the placement to the thread that called cuInit, which may already have a context. */
static void on_joined(void)
{
    const struct gf_cuda *cuda = gf_process.preload->cuda;
    CUcontext context = NULL;
    CUdevice device;

    if (gf_process_dead())
        return;
    gf_keep_errno();
    gf_thread_binding_drop_inherited();
    if (cuda->cuCtxGetCurrent && cuda->cuCtxGetDevice &&
        cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS)
        on_device_seen(device, gf_sighting_current, 0);
    gf_thread_binding_settle(true);
    gf_start_options_openmp();
    /* Not on the library's thread, which would replace the environment while the program's threads change it. */
    if (gf_process.preload->heap->watch_retained && gf_process.preload->options->mode == gf_mode_on)
        gf_hint_publish_engine(gf_process.pid);
    gf_transfer_joined(has_allocated());
}

static void on_thread_started(void)
{
    if (!gf_process_dead())
        gf_thread_binding_settle(false);
}

static void on_forked(void)
{
    gf_thread_binding_program_begin(); /* the child keeps the program's own binding */
    gf_store_relaxed(&gf_process.dead, true);
}

static int gpu_node(void)
{
    const struct gf_placement *placement = gf_process_placement();
    return placement ? placement->node : -1;
}

static bool has_context(void)
{
    return gf_load_relaxed(&gf_process.choice.contexts) != 0;
}

static struct gf_engine engine = {
    .abi = GF_ENGINE_ABI,
    .size = sizeof(engine),
    .device_seen = on_device_seen,
    .work_seen = on_work_seen,
    .joined = on_joined,
    .watch = gf_watch_thread_run,
    .thread_started = on_thread_started,
    .forked = on_forked,
    .program_begin = gf_thread_binding_program_begin,
    .program_end = gf_thread_binding_program_end,
    .gpu_node = gpu_node,
    .has_context = has_context,
    .report = gf_output_snapshot,
};

static void print_warning(void *closure, const char *line)
{
    (void)closure;
    gf_warn("%s", line);
}

/*
 * Finds the start mask. It is the mask of the thread that called cuInit, because a launcher or
 * taskset -p may have changed this mask since startup. If the program itself set the mask of this
 * thread, or the thread has ended, the start mask is the mask recorded at startup. If the result
 * equals the mask of a hint that a bound process passed on, the start mask is the mask of that
 * process before the binding. Then the calling thread, which has inherited the memory policy of the
 * thread that called cuInit, also drops a policy that came with the hint.
 */
static void find_start(const struct gf_preload *preload, struct gf_cpus *ret)
{
    struct gf_process *p = &gf_process;
    struct gf_cpus now = {0};

    *ret = preload->startup->cpus;
    if (preload->thread_class(preload->caller) == gf_thread_program &&
        syscall(SYS_sched_getaffinity, preload->caller, sizeof(now), &now) > 0)
        *ret = now;
    if (preload->options->mode == gf_mode_observe || gf_hint_read(environ, &p->hint) != 0 ||
        !gf_set_equal(ret, &p->hint.set))
        return;
    p->hinted = true;
    *ret = p->hint.was;
    gf_thread_binding_drop_inherited();
}

static void load_machine(const struct gf_preload *preload)
{
    struct gf_process *p = &gf_process;
    struct gf_cpus start;

    find_start(preload, &start);
    gf_watch_servers_start(); /* the threads inherit no memory policy of a hint */
    gf_facts_gather("", environ, &start, &p->facts);
    /* The start mask of the hint may contain CPUs that are no longer in the cpuset. */
    if (p->hinted && gf_set_meet(&start, &p->facts.cpuset))
        gf_set_and(&p->facts.start, &start, &p->facts.cpuset);
    const int error = gf_machine_load(preload->options->machine, &p->machine);
    if (error)
        gf_warn("cannot read the machine%s%s: %s; nothing is bound",
                *preload->options->machine ? " recorded in " : "", preload->options->machine,
                strerrordesc_np(-error));
}

static void prepare_report(const struct gf_preload *preload)
{
    struct gf_process *p = &gf_process;
    struct gf_report *report = &p->report;

    report->preload = preload;
    report->pid = p->pid;
    report->started_s = gf_clock_ns(CLOCK_REALTIME) / 1000000000;
    report->started_ns = p->started_ns;
    report->machine = p->machine;
    report->facts = &p->facts;
    report->counts = &p->counts;
    report->hint = p->hinted ? &p->hint : NULL;
    report->costs.start_us = (gf_now_ns() - p->started_ns) / 1000;
    const ssize_t length = readlink("/proc/self/exe", report->program, sizeof(report->program) - 1);
    report->program[gf_max(length, 0)] = '\0';
    const char *job = gf_launch_job(environ);
    gf_fmt(report->job, sizeof(report->job), "%s", job ? job : "");
}

/*
 * Decides at once if the GPU is known: either only one GPU is visible, or the launcher's rank
 * selects it.
 */
static void decide_early(const struct gf_cuda *cuda)
{
    struct gf_process *p = &gf_process;
    int count = 0;

    if (cuda->cuDeviceGetCount && cuda->cuDeviceGetCount(&count) == CUDA_SUCCESS &&
        gf_choice_preset(&p->choice, count, p->facts.rank.local_rank, p->facts.rank.local_size))
        gf_requests_serve(gf_request_decide);
}

/* Whether a preloaded process started this one. Then several processes may print the same lines. */
static bool is_parent_preloaded(void)
{
    const pid_t parent = getppid(); /* 0: outside of this PID namespace */
    return parent > 0 && !gf_permit_sealed() &&
           gf_tasks_find_map(parent, "/libgpufeed.so", NULL) == 0;
}

/* Makes each printed line contain the rank or the id of the process that printed it. */
static void name_process(void)
{
    struct gf_rank rank;
    char name[32];

    gf_launch_rank(environ, &rank);
    gf_launch_name(&rank, name, sizeof(name));
    if (rank.rank < 0 && is_parent_preloaded())
        gf_fmt(name, sizeof(name), "pid %d", gf_process.pid);
    if (*name)
        gf_log_set_process(name);
}

GF_EXPORT gf_engine_start_fn gf_engine_start;

/*
 * Starts the engine. Called once, after the first successful cuInit, on the library's thread.
 * Returns NULL if the engine stays off.
 */
GF_EXPORT const struct gf_engine *gf_engine_start(const struct gf_preload *preload)
{
    struct gf_process *p = &gf_process;

    if (preload->abi != GF_ENGINE_ABI || preload->size != sizeof(*preload) || p->preload ||
        preload->options->mode == gf_mode_off)
        return NULL;
    gf_keep_errno();
    p->preload = preload;
    gf_permit_share(preload->permitted);
    p->pid = getpid();
    p->thread = (pid_t)syscall(SYS_gettid);
    p->started_ns = gf_now_ns();
    p->cuda_since = gf_tasks_now();
    sem_init(&p->wake, 0, 0);
    gf_log_expect_stderr(preload->startup->stderr_device, preload->startup->stderr_inode);
    gf_log_set_level(preload->startup->stderr_closed ? GF_LOG_SILENT
                                                     : GF_LOG_WARN + preload->options->verbose);
    gf_log_set_areas(preload->options->debug);
    gf_validate_environment(environ, false, print_warning, NULL);
    name_process();
    load_machine(preload);
    prepare_report(preload);
    gf_output_check();
    gf_explain_heap(preload->heap);
    if (p->machine && p->machine->node_count > 1)
        gf_gpu_ask_nvml(preload->cuda);
    engine.transfer = gf_transfers_start();
    gf_gpu_time_prepare();
    gf_intervals_start();
    gf_start_options_begin();
    decide_early(preload->cuda);
    return &engine;
}

/* On a busy machine, the library's thread may wait for a CPU for seconds. */
#define END_MS 5000

/*
 * Ends the engine at a normal exit. The library's thread may hold the report lock while it takes a
 * sample, so the wait for the lock is limited.
 */
__attribute__((destructor)) static void end_engine(void)
{
    const struct gf_process *p = &gf_process;

    if (!p->preload)
        return;
    const bool is_alive = !gf_process_dead() && getpid() == p->pid;
    if (is_alive)
        gf_contexts_find();
    if (is_alive && gf_process_decision()) {
        if (gf_report_lock(END_MS))
            gf_exit_summary_run();
        else
            gf_exit_summary_skip();
    }
    p->preload->log_finish();
}
