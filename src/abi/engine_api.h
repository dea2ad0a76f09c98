/* SPDX-License-Identifier: Apache-2.0 */
/* The two structs of function pointers. */
#pragma once

#include "abi/cuda.h" /* struct gf_cuda: pointers to the driver's own functions */
#include "abi/gputime_api.h"
#include "abi/heap_api.h"
#include "abi/trace_api.h"
#include "abi/transfer_api.h"
#include "base/base.h"
#include "base/cpus.h"
#include "config/options.h"
#include "config/startup_env.h"

/* How often each hooked function was called, for the report. */

struct gf_hook_counts {
    const char *name;
    uint64_t calls; /* number of calls by the program */

    /*
     * Only for hooks of copies: the number of copies, and their bytes. A call for a batch makes
     * several copies.
     */
    uint64_t copies, bytes;
    /* The members from here on count only copies that are large enough for staging. */
    uint64_t offered, offered_bytes; /* offered to the engine */
    /*
     * Copies that were not offered to the engine, because the engine stages no copy with such a
     * shape or source access order.
     */
    uint64_t unfit, unfit_bytes;
};

/*
 * Reads the counts of the i-th hook, counted from 0. Returns false if there is no i-th hook. May be
 * called on any thread.
 */
typedef bool gf_hook_counts_fn(size_t i, struct gf_hook_counts *ret);

/*
 * The contract between the preload library and the engine: two structs of function pointers.
 *
 * The preload library (libgpufeed.so) is in every process. After the first successful cuInit it
 * creates the library's own thread, "gpufeed". That thread opens the engine (libgpufeed-engine.so)
 * once, with RTLD_LOCAL, and calls gf_engine_start with a struct gf_preload. The thread publishes
 * the returned struct gf_engine by one atomic store, and then runs the engine's watch(). Before
 * that store, every hook only calls the original function. If gf_engine_start returns NULL, every
 * hook does so for the life of the process. docs/concurrency.md lists the library's other threads.
 *
 * Hooks call the functions of struct gf_engine on the program's threads, possibly under the
 * loader's lock (a constructor may be calling CUDA). These functions never wait for another thread,
 * never call a hook, keep errno, and return quickly. Only the functions of `transfer` may wait, as
 * long as the driver's own functions would.
 */

#define GF_ENGINE_FILE "libgpufeed-engine.so"
#define GF_ENGINE_START "gf_engine_start"

struct gf_pystack_frame; /* base/pystack.h */

struct gf_preload {
    uint32_t abi; /* GF_ENGINE_ABI of abi_hash.h: the hash of the contract headers */
    /* sizeof(struct gf_preload). The engine refuses other values of `abi` and `size`. */
    uint32_t size;
    const struct gf_options *options;
    const struct gf_startup_env *startup;
    /* Bits of the system calls that the process may make: os/permit.h. */
    _Atomic unsigned *permitted;
    const struct gf_cuda *cuda;
    /* The path of a preloaded library that replaces libcuda, or NULL if there is none. */
    const char *driver_shim;
    /* Unless the heap is in replace mode, its functions are NULL, except time_passthrough. */
    const struct gf_heap_ops *heap;
    const char *version;
    pid_t caller; /* id of the thread whose cuInit led to the load; the thread may have ended */

    /*
     * Returns the class of a live thread. The thread may belong to another process if the program
     * has set the thread's mask.
     */
    enum gf_thread_class (*thread_class)(pid_t tid);
    /*
     * Starts a detached thread of the library, with all signals blocked. Returns 0 or an errno. Any
     * thread may call this. A thread that pthread_create starts inside the library is the program's:
     * a handler of its signals has created it.
     */
    int (*start_thread)(void *(*run)(void *closure), void *closure);
    gf_hook_counts_fn *hook_counts; /* for the report */
    struct gf_submit_table *submissions;
    /*
     * The calling thread's index in gf_submit_table.submitters. GF_SUBMITTERS: it has none, or shares
     * it.
     */
    unsigned (*submitter)(void);
    /* Ends the recorded calls of threads that have ended inside a driver call. */
    void (*end_lost_calls)(void);
    /*
     * Describes the loaded Python interpreter. False if there is none. May be called on any thread.
     */
    bool (*python)(struct gf_python *ret);
    /*
     * Reads up to `cap` Python frames of the calling thread, innermost first; returns their number.
     */
    size_t (*python_frames)(struct gf_pystack_frame *ret, size_t cap);
    /*
     * The event log, which the preload library writes. log_wanted returns whether there is a log.
     * log adds an event, whose fields are a JSON object on one line. log_finish writes all finished
     * lines; afterwards a thread that logs an event also writes its line to the file. log_count
     * returns how many lines were logged and dropped. These functions may be called on any thread.
     */
    bool (*log_wanted)(void);
    void (*log)(const char *event, const char *fields);
    void (*log_finish)(void);
    void (*log_count)(struct gf_journal_count *ret);
    /*
     * stall_counts returns the number of stalls of this process and its children until now, by
     * cause. each_latency calls fn with the durations of this process's calls.
     */
    void (*stall_counts)(struct gf_stall_count ret[GF_CAUSE_COUNT]);
    void (*each_latency)(gf_latency_fn *fn, void *closure);
    /* The steps that the program has marked; may be called on any thread. */
    void (*step_count)(struct gf_step_count *ret);
    /* The durations of marked or detected steps; may be called on any thread. */
    void (*step_times)(struct gf_step_times *ret);
    /* Takes the approximate time of a launch of a graph. Called on the sampler's thread. */
    void (*step_graph)(uint64_t ns, uint64_t graph);
    /* Takes the engine's facts of steps (trace_api.h). Called on the sampler's thread. */
    void (*step_facts)(uint64_t now, const uint64_t facts[GF_STEP_ENGINE_FACTS]);
    /* Copies that waited for their stream; may be called on any thread. */
    void (*copy_waits)(struct gf_copy_waits *ret);
    /*
     * Sets the GPU to be named in log lines about stalls of the heap. NULL: the process uses
     * several GPUs.
     */
    void (*gpu_known)(const struct gf_stall_gpu *gpu);
};

/*
 * How the library noticed that the program uses a device. Values further down are stronger
 * evidence.
 */
enum gf_sighting {
    gf_sighting_retained, /* its primary context was retained, or a context was created on it */
    gf_sighting_current,  /* a context of the device was made current */
    gf_sighting_memory,   /* `bytes` of memory were allocated on it */
};

struct gf_engine {
    uint32_t abi;
    uint32_t size;
    /*
     * Called after a successful driver call that shows that the program uses this device. `bytes`
     * is only used with gf_sighting_memory.
     */
    void (*device_seen)(CUdevice device, enum gf_sighting how, uint64_t bytes);
    /* Called when the program submits work to a context for the first time. May be NULL. */
    void (*work_seen)(void);
    /*
     * Called on the thread gf_preload.caller after the engine was published. Not called if that
     * thread has given up waiting for the engine.
     */
    void (*joined)(void);
    /*
     * Called on the library's own thread after the engine was published, with all signals blocked.
     * The function may run until the process ends.
     */
    void (*watch)(void);
    /* Called first in each thread that the program creates, before its start routine. */
    void (*thread_started)(void);
    /*
     * Called in a forked child of a process that has an engine. Calls only async-signal-safe
     * functions.
     */
    void (*forked)(void);
    /*
     * program_begin is called just before the calling thread starts another program, also in a
     * child of vfork. program_begin returns true if it changed the calling thread's CPU mask. In
     * that case program_end is called afterwards and restores the mask, except after a successful
     * exec, which does not return. Both functions call only async-signal-safe functions. Both
     * pointers may be NULL.
     */
    bool (*program_begin)(void);
    void (*program_end)(void);
    /*
     * Returns the NUMA node of the process's GPU. Returns -1 if it is unknown, if the GPUs are on
     * several nodes, or in mode observe.
     */
    int (*gpu_node)(void);
    /* Whether the process has had a context. Any thread, also after the engine has ended. */
    bool (*has_context)(void);
    /*
     * Writes the current report. Like snprintf, returns the length that the whole report needs.
     * Returns 0 while the process exits, and if another thread takes longer than wait_ms to write a
     * report.
     */
    size_t (*report)(char *buf, size_t size, unsigned wait_ms);
    /*
     * The functions for copies and pinned memory. NULL if the options turn both off. Does not
     * change after the engine was published.
     */
    const struct gf_transfer_ops *transfer;
};

typedef const struct gf_engine *gf_engine_start_fn(const struct gf_preload *preload);
