/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the engine after the first cuInit, and handles forks of such a process.
 *
 * Starts to watch for stalls, and opens the log if GPUFEED_LOG is set. With GPUFEED_LOG, every
 * process watches for stalls. Without it, only processes that have initialised CUDA do so.
 */
#include "preload/attach/attach.h"

#include "abi_hash.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/path.h"
#include "base/symbols.h"
#include "config/startup_env.h"
#include "os/elf_fault.h"
#include "os/permit.h"
#include "os/procfs.h"
#include "preload/attach/driver.h"
#include "preload/attach/originals.h"
#include "preload/attach/submissions.h"
#include "preload/attach/threads.h"
#include "preload/heap/arenas.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/heap.h"
#include "preload/malloc/start.h"
#include "preload/trace/cause.h"
#include "preload/trace/copy_waits.h"
#include "preload/trace/journal.h"
#include "preload/trace/latency.h"
#include "preload/trace/python.h"
#include "preload/trace/run_root.h"
#include "preload/trace/stall.h"
#include "preload/trace/step.h"
#include "preload/trace/step_times.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/prctl.h>

/*
 * Finds the GPU of the current context. The driver answers these queries from stored values,
 * without waiting.
 */
static bool current_gpu(struct gf_stall_gpu *ret)
{
    const struct gf_cuda *cuda = gf_driver_functions();
    CUcontext context = NULL;
    CUdevice device;

    /*
     * Without a context, cuCtxGetDevice would fail, and CUDA tools would report that as an error of
     * the program.
     */
    if (!cuda || !cuda->cuCtxGetCurrent || cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
        !context || !cuda->cuCtxGetDevice || cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return false;
    ret->device = device;
    if (!cuda->cuDeviceGetPCIBusId ||
        cuda->cuDeviceGetPCIBusId(ret->pci, sizeof(ret->pci), device) != CUDA_SUCCESS)
        *ret->pci = '\0';
    for (char *p = ret->pci; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return true;
}

static void finish_log_at_exit(void)
{
    gf_journal_before_exit(gf_step_log_flush);
}

/*
 * Called near the end of the process. Logs the marks of steps that are not logged yet, and writes
 * all lines.
 */
static void gf_logging_finish(void)
{
    gf_step_log_flush();
    gf_journal_put_exit();
    gf_journal_finish();
}

/*
 * Called after the first successful cuInit. Starts to watch for stalls, and opens the log if it is
 * not open.
 */
static void gf_logging_cuda(void)
{
    const struct gf_options *options = gf_startup_env_options();

    gf_start();
    gf_start_watch(options);
    gf_stall_watch_driver((uint64_t)options->stall_us * 1000,
                          (uint64_t)options->stall_wait_us * 1000, current_gpu);
    gf_copy_waits_start((uint64_t)options->copy_wait_us * 1000);
    gf_journal_share();
    if (gf_journal_wanted())
        at_quick_exit(finish_log_at_exit); /* because quick_exit calls libc's _exit, not the hook */
}

/* The main function of the log's writer thread. */
static void *write_log(void *unused)
{
    prctl(PR_SET_NAME, "gpufeed-log");
    gf_journal_serve();
    return unused;
}

/*
 * The pointer to the published engine is in a page that the kernel wipes in forked children. So in
 * a forked child, whichever system call created it, a load of the pointer returns NULL, and hooks
 * pass calls through.
 */
struct engine_page {
    const struct gf_engine *_Atomic engine;
};

/*
 * The progress of the load. If the library's thread gets the loader's lock, no holder of the lock
 * has waited for a thread in cuInit. The stage only increases. Every wait for a stage has a time
 * limit.
 */
enum {
    stage_none,
    stage_taken,   /* a thread of the program is starting the library's thread */
    stage_running, /* the library's thread runs, and waits for the loader's lock */
    stage_free,    /* the library's thread got that lock */
    stage_done,    /* the engine is published, or the load failed */
};

static _Atomic unsigned stage; /* a futex */
static pid_t loader_thread;    /* the library's thread, from stage_running on */
static struct engine_page *_Atomic engine_page;
static const struct gf_engine *attached; /* the published engine, for the fork handlers */
static struct gf_preload preload;

const struct gf_engine *gf_engine(void)
{
    struct engine_page *page = gf_load_acquire(&engine_page);
    return gf_likely(!page) ? NULL : gf_load_relaxed(&page->engine);
}

const struct gf_engine *gf_engine_enter(void)
{
    const struct gf_engine *engine = gf_engine();
    if (gf_likely(!engine) || gf_thread.inside || gf_thread.ours)
        return NULL;
    gf_thread.inside++;
    return engine;
}

void gf_engine_leave(void)
{
    gf_thread.inside--;
}

static void announce_stage(unsigned to)
{
    gf_store_release(&stage, to);
    syscall(SYS_futex, &stage, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/*
 * Waits until a stage is reached. Returns false after the timeout. Uses a raw system call, which is
 * not a cancellation point.
 */
static bool await_stage(unsigned wanted, unsigned ms)
{
    const uint64_t until = gf_now_ns() + (uint64_t)ms * 1000000;
    const struct timespec at = gf_timespec(until);
    unsigned now;

    while ((now = gf_load_acquire(&stage)) < wanted)
        if (syscall(SYS_futex, &stage, FUTEX_WAIT_BITSET_PRIVATE, now, &at, NULL,
                    FUTEX_BITSET_MATCH_ANY) != 0 &&
            errno != EAGAIN && errno != EINTR)
            return false;
    return true;
}

/* Whether the library's thread sleeps. False if it is runnable; true if its state is unknown. */
static bool loader_thread_sleeps(void)
{
    const char state = gf_procfs_thread_state(loader_thread);
    return !state || state == 'S';
}

/*
 * Waits until the library's thread has got the loader's lock. Gives up if that thread sleeps. A
 * thread that sleeps waits for the lock, and the lock's holder may be the caller, or may wait for
 * the caller. Continues to wait if the thread is runnable and only waits for a CPU.
 */
static bool await_loader_lock(void)
{
    for (unsigned ms = 0; ms < 2000; ms += 50)
        if (await_stage(stage_free, 50))
            return true;
        else if (loader_thread_sleeps())
            return false;
    return false;
}

/*
 * Waits for the end of the load, with a time limit. If the loader's lock is free, a load takes 20
 * to 40 ms.
 */
static bool await_engine(void)
{
    return await_stage(stage_running, 2000) && await_loader_lock() && await_stage(stage_done, 2000);
}

/*
 * Waits for a load in progress, because a child that is forked during a load would inherit
 * inconsistent lists of the loader.
 */
static void attach_before_fork(void)
{
    gf_keep_errno();
    if (!gf_thread.inside)
        await_engine();
}

static void attach_in_child(void)
{
    gf_store_relaxed(&engine_page, NULL); /* for kernels without MADV_WIPEONFORK */
    gf_store_relaxed(&stage, stage_done); /* the child has no loading thread */
    gf_counters_in_child();
    gf_submissions_in_child();
    if (attached && attached->forked) {
        gf_thread.inside++;
        attached->forked();
        gf_thread.inside--;
    }
}

#define OFF "copies, pinned memory and placement are off: "

/*
 * The first call may reach a wrapper of dlopen in another preloaded library, and then fails. In that
 * case the last dlopen in search order is called.
 */
static void *open_library(const char *path)
{
    const struct gf_originals *originals = gf_originals();
    struct gf_symbol last;
    void *handle = originals->dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle || !gf_symbol_find("dlopen", (const void *)originals->dlopen, &last))
        return handle;
    while (gf_symbol_find("dlopen", last.address, &last))
        ;
    return ((__typeof__(dlopen) *)last.address)(path, RTLD_NOW | RTLD_LOCAL);
}

/* Looks for a file in this library's folder. True: it exists, and ret is its path. */
static bool find_beside(const char *file, char *ret, size_t size)
{
    struct gf_symbol own;

    if (!gf_symbol_holder(&attached, &own))
        return false;
    const int folder = (int)(gf_path_file_name(own.object) - own.object);
    return (size_t)gf_fmt(ret, size, "%.*s%s", folder, own.object, file) < size &&
           syscall(SYS_faccessat, AT_FDCWD, ret, F_OK) == 0;
}

/*
 * Opens the engine beside this library. In a build tree it is in another folder, and libc searches
 * LD_LIBRARY_PATH and the RUNPATH of this library, which therefore calls libc's dlopen itself. It
 * does not search the working directory, in which another user may have put an engine.
 */
static void *open_engine(void)
{
    char path[PATH_MAX];

    /* The loader may know this library only by a relative path. */
    if (find_beside(GF_ENGINE_FILE, path, sizeof(path)) && *path == '/')
        return open_library(path);
    if (gf_startup_env()->searches_here) {
        gf_warn(OFF "LD_LIBRARY_PATH names the working directory, and " GF_ENGINE_FILE
                    " is not beside libgpufeed.so");
        return NULL;
    }
    return open_library(GF_ENGINE_FILE);
}

/*
 * Whether the engine and the libraries that it links can be loaded. A truncated file would end the
 * program by SIGBUS. They lie in the folder of this library, or are found elsewhere.
 */
static bool engine_files_are_whole(void)
{
    static const char *const names[] = {GF_ENGINE_FILE, "libgfenv.so", "libgfhwloc.so",
                                        "libgfnuma.so"};
    char path[PATH_MAX];

    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        const char *fault = find_beside(names[i], path, sizeof(path)) ? gf_elf_fault(path) : NULL;
        if (fault) {
            gf_warn(OFF "cannot load %s: %s", path, fault);
            return false;
        }
    }
    return true;
}

static gf_engine_start_fn *find_engine_start(void)
{
    if (!engine_files_are_whole())
        return NULL;
    void *handle = open_engine();
    void *start = handle ? gf_originals()->dlsym(handle, GF_ENGINE_START) : NULL;
    const char *reason = dlerror();
    if (!start && reason)
        gf_warn(OFF "%s", reason);
    return (gf_engine_start_fn *)start;
}

static const struct gf_engine *start_engine(pid_t caller)
{
    const struct gf_options *options = gf_startup_env_options();

    gf_start_probes(options->mode == gf_mode_observe ? GF_PERMIT_READING : GF_PERMIT_ALL);
    preload = (struct gf_preload){
        .caller = caller,
        .abi = GF_ENGINE_ABI,
        .size = sizeof(preload),
        .options = options,
        .permitted = gf_permit_word(),
        .startup = gf_startup_env(),
        .cuda = gf_driver_functions(),
        .driver_shim = gf_driver_shim() ? gf_driver_shim()->object : NULL,
        .heap = gf_heap_ops(),
        .version = GF_VERSION,
        .thread_class = gf_thread_class_get,
        .start_thread = gf_thread_start_own,
        .hook_counts = gf_counters_read,
        .submissions = &gf_submissions,
        .submitter = gf_submitter_of_caller,
        .end_lost_calls = gf_counters_end_lost_calls,
        .python = gf_python_describe,
        .python_frames = gf_python_frames,
        .log_wanted = gf_journal_wanted,
        .log = gf_journal_event,
        .log_finish = gf_logging_finish,
        .log_count = gf_journal_count,
        .stall_counts = gf_stall_counts,
        .each_latency = gf_latency_each,
        .step_count = gf_step_count,
        .step_times = gf_step_times_read,
        .step_graph = gf_step_times_graph,
        .step_facts = gf_step_times_publish,
        .copy_waits = gf_copy_waits_read,
        .gpu_known = gf_stall_set_gpu,
    };
    gf_engine_start_fn *start = find_engine_start();
    if (start && gf_journal_wanted()) /* before the engine logs, because the log's disk may hang */
        gf_thread_start_own(write_log, NULL);
    const struct gf_engine *engine = start ? start(&preload) : NULL;
    if (start && (!engine || engine->abi != GF_ENGINE_ABI || engine->size != sizeof(*engine))) {
        gf_warn(OFF GF_ENGINE_FILE " belongs to another build than libgpufeed.so " GF_VERSION
                                   "; install both from one build");
        atexit(finish_log_at_exit); /* as no engine does */
        return NULL;
    }
    return engine;
}

static void publish_engine(const struct gf_engine *engine)
{
    struct engine_page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    madvise(page, sizeof(*page), MADV_WIPEONFORK);
    attached = engine;
    gf_store_relaxed(&page->engine, engine);
    gf_store_release(&engine_page, page);
}

/*
 * The main function of the library's thread. This thread does all work that needs the loader's
 * lock, so that no thread of the program has to wait for that lock.
 */
static void *load_engine(void *caller)
{
    gf_thread.inside++;
    prctl(PR_SET_NAME, "gpufeed");
    gf_arenas_share_main();
    loader_thread = gettid();
    announce_stage(stage_running);
    gf_originals()->dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    announce_stage(stage_free);
    gf_driver_pin();
    const struct gf_engine *engine = start_engine((pid_t)(intptr_t)caller);
    if (engine)
        publish_engine(engine);
    announce_stage(stage_done);
    if (gf_engine())
        engine->watch();
    return NULL;
}

static void warn_of_duplicate(void)
{
    struct gf_symbol here, second;

    if (gf_duplicate_load_find(&here, &second))
        gf_warn("two copies of the library are loaded: %s is active, %s passes every call through. "
                "Name only one in LD_PRELOAD; `gpufeed run` adds its own.",
                here.object, second.object);
}

static GF_COLD void start_load(void)
{
    gf_keep_errno();
    const int cancel = gf_thread_hold_cancel(); /* the driver's cuInit is no cancellation point */

    gf_thread.inside++;
    gf_messages_start();
    warn_of_duplicate();
    gf_logging_cuda();
    gf_huge_allow();
    gf_submissions_set_python(gf_python_thread_state);
    int failed = pthread_atfork(attach_before_fork, NULL, attach_in_child);
    if (!failed)
        failed = gf_thread_start_own(load_engine, (void *)(intptr_t)gettid());
    if (failed) {
        announce_stage(stage_done);
        gf_warn(OFF "cannot start a thread: %s", strerrordesc_np(failed));
    } else if (await_engine()) {
        const struct gf_engine *engine = gf_engine();
        if (engine) {
            engine->joined();
            gf_run_root_ask(engine->has_context); /* a late engine may not know all contexts */
        }
    }
    gf_thread.inside--;
    gf_thread_release_cancel(cancel);
}

void gf_attach(void)
{
    unsigned none = stage_none;
    if (gf_load_relaxed(&stage) != none || gf_thread.inside || gf_duplicate_load_passes())
        return;
    if (gf_cas_acq_rel(&stage, &none, stage_taken))
        start_load();
}
