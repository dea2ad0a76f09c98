/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/attach.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/symbols.h"
#include "hook/classes.h"
#include "hook/counters.h"
#include "hook/on_thread.h"
#include "hook/originals.h"
#include "hook/routes.h"
#include "hook/second.h"
#include "hook/stand_in.h"
#include "hook/thread.h"
#include "hook/watch.h"
#include "observe/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The published engine lies in a page that the kernel empties in forked children, so that a child
 * passes through by the same one load, whichever system call made it.
 */
struct slot {
    const struct gf_engine *engine;
};

/* How far the loading is. It goes up only; who waits for it does so with a limit. */
enum {
    stage_none,
    stage_taken,   /* a thread of ours is being made */
    stage_running, /* it runs, and asks for the loader's lock */
    stage_free,    /* it had the lock: nobody holds it who may be waiting for a thread in cuInit */
    stage_done,    /* published, or given up */
};

static unsigned stage;
static pid_t loader; /* our thread, from stage_running on */
static struct slot *slot;
static const struct gf_engine *attached;
static struct gf_door door;

const struct gf_engine *gf_engine(void)
{
    const struct slot *at = __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
    return gf_likely(!at) ? NULL : __atomic_load_n(&at->engine, __ATOMIC_RELAXED);
}

const struct gf_engine *gf_engine_enter(void)
{
    const struct gf_engine *engine = gf_engine();
    if (gf_likely(!engine) || gf_thread.guard || gf_thread.ours)
        return NULL;
    gf_thread.guard++;
    return engine;
}

void gf_engine_leave(void)
{
    gf_thread.guard--;
}

static void announce(unsigned to)
{
    __atomic_store_n(&stage, to, __ATOMIC_RELEASE);
    syscall(SYS_futex, &stage, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* By its own system call: no cancellation point. False when the time is up. */
static bool await_stage(unsigned wanted, unsigned ms)
{
    const uint64_t until = gf_now_ns() + (uint64_t)ms * 1000000;
    const struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
                                .tv_nsec = (long)(until % 1000000000)};
    unsigned now;

    while ((now = __atomic_load_n(&stage, __ATOMIC_ACQUIRE)) < wanted)
        if (syscall(SYS_futex, &stage, FUTEX_WAIT_BITSET_PRIVATE, now, &at, NULL,
                    FUTEX_BITSET_MATCH_ANY) != 0 &&
            errno != EAGAIN && errno != EINTR)
            return false;
    return true;
}

/* Whether our thread waits for somebody, and not merely for a CPU. */
static bool loader_sleeps(void)
{
    char path[64], text[64];

    gf_fmt(path, sizeof(path), "/proc/self/task/%d/stat", loader);
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    const ssize_t length = syscall(SYS_read, fd, text, sizeof(text) - 1);
    syscall(SYS_close, fd);
    text[length > 0 ? length : 0] = 0;
    const char *state = strchr(text, ')'); /* its name is ours */
    return !state || strncmp(state, ") S", 3) == 0;
}

/*
 * If it is not given the lock at once, the lock's holder may be waiting for the caller, or be the caller. On a
 * busy machine it may have to wait for a CPU, before it asks and after it was given the lock.
 */
static bool await_lock(void)
{
    for (unsigned ms = 0; ms < 2000; ms += 50)
        if (await_stage(stage_free, 50))
            return true;
        else if (loader_sleeps())
            return false;
    return false;
}

/* With the lock free all is done in 20 to 40 ms. */
static bool await_engine(void)
{
    return await_stage(stage_running, 2000) && await_lock() && await_stage(stage_done, 2000);
}

/* A child forked in the midst of it would have a loader with half an object in its lists. */
static void before_fork(void)
{
    const int error = errno;
    if (!gf_thread.guard)
        await_engine();
    errno = error;
}

static void in_child(void)
{
    slot = NULL;        /* for kernels without MADV_WIPEONFORK */
    stage = stage_done; /* nobody is left to announce it */
    gf_counters_in_child();
    if (attached && attached->forked) {
        gf_thread.guard++;
        attached->forked();
        gf_thread.guard--;
    }
}

/*
 * By name, through the door's RUNPATH: that is searched for a caller who jumps from here into libc.
 * Another preload's dlopen may call, and is passed by then.
 */
static void *open_engine(void)
{
    const struct gf_originals *originals = gf_originals();
    struct gf_symbol last;
    void *handle = originals->dlopen(GF_ENGINE_FILE, RTLD_NOW | RTLD_LOCAL);
    if (handle || !gf_symbol_find("dlopen", (const void *)originals->dlopen, &last))
        return handle;
    while (gf_symbol_find("dlopen", last.address, &last))
        ;
    return ((__typeof__(dlopen) *)last.address)(GF_ENGINE_FILE, RTLD_NOW | RTLD_LOCAL);
}

#define OFF "copies, pinned memory and placement are off: "

static gf_engine_start_fn *find_start(void)
{
    void *handle = open_engine();
    void *start = handle ? gf_originals()->dlsym(handle, GF_ENGINE_START) : NULL;
    if (!start)
        gf_warn(OFF "%s", dlerror());
    return (gf_engine_start_fn *)start;
}

static const struct gf_engine *start_engine(pid_t caller)
{
    door = (struct gf_door){
        .caller = caller,
        .abi = GF_ENGINE_ABI,
        .size = sizeof(door),
        .options = gf_birth_options(),
        .birth = gf_birth(),
        .cuda = gf_routes_cuda(),
        .stand_in = gf_stand_in() ? gf_stand_in()->object : NULL,
        .heap = gf_heap_ops(),
        .version = GF_VERSION,
        .thread_class = gf_classes_get,
        .each_hook = gf_counters_each,
        .log_wanted = gf_journal_wanted,
        .log = gf_journal_event,
        .log_finish = gf_journal_finish,
        .log_count = gf_journal_count,
        .stall_counts = gf_stall_counts,
        .each_latency = gf_latency_each,
        .gpu_known = gf_stall_gpu_known,
    };
    gf_engine_start_fn *start = find_start();
    const struct gf_engine *engine = start ? start(&door) : NULL;
    if (start && (!engine || engine->abi != GF_ENGINE_ABI || engine->size != sizeof(*engine))) {
        gf_warn(OFF GF_ENGINE_FILE " is of another version than libgpufeed.so " GF_VERSION);
        return NULL;
    }
    return engine;
}

static void publish(const struct gf_engine *engine)
{
    struct slot *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    madvise(page, sizeof(*page), MADV_WIPEONFORK);
    attached = engine;
    page->engine = engine;
    __atomic_store_n(&slot, page, __ATOMIC_RELEASE);
}

/* Our one thread: all that needs the loader's lock, which the program thus never waits for. */
static void *bring_in(void *caller)
{
    gf_thread.guard++;
    prctl(PR_SET_NAME, "gpufeed");
    gf_heap_thread_aside();
    loader = gettid();
    announce(stage_running);
    gf_originals()->dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    announce(stage_free);
    gf_routes_pin();
    const struct gf_engine *engine = start_engine((pid_t)(intptr_t)caller);
    if (engine)
        publish(engine);
    announce(stage_done);
    if (gf_engine()) {
        gf_watch_serve();
        engine->watch();
    }
    return NULL;
}

static void tell_of_second(void)
{
    struct gf_symbol here, second;

    if (gf_second_find(&here, &second))
        gf_warn("two copies of the library are loaded: %s serves, %s stays out; name one only, in LD_PRELOAD (`gpufeed "
                "run` puts its own there)",
                here.object, second.object);
}

static GF_COLD void load(void)
{
    const int error = errno;
    int cancel;

    /* The driver's cuInit is no cancellation point; what the engine reads and prints would be. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    gf_thread.guard++;
    gf_log_set_level(gf_birth()->mute ? GF_LOG_SILENT : GF_LOG_WARN + gf_birth_options()->verbose);
    tell_of_second();
    gf_watch_cuda();
    int failed = pthread_atfork(before_fork, NULL, in_child);
    if (!failed)
        failed = gf_on_thread_start_ours(bring_in, (void *)(intptr_t)gettid());
    if (failed) {
        announce(stage_done);
        gf_warn(OFF "cannot start a thread: %s", strerrordesc_np(failed));
    } else if (await_engine()) {
        const struct gf_engine *engine = gf_engine();
        if (engine)
            engine->joined();
    }
    gf_thread.guard--;
    pthread_setcancelstate(cancel, NULL);
    errno = error;
}

void gf_attach(void)
{
    unsigned none = stage_none;
    if (__atomic_load_n(&stage, __ATOMIC_RELAXED) != none || gf_thread.guard || gf_stays_out())
        return;
    if (__atomic_compare_exchange_n(&stage, &none, stage_taken, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        load();
}
