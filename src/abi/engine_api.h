/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the preload library and the engine: two structs of function pointers.
 *
 * The preload library (libgpufeed.so) is in every process. After the first successful cuInit it
 * creates the library's own thread, "gpufeed". That thread opens the engine (libgpufeed-engine.so)
 * once, with RTLD_LOCAL, and calls gf_engine_start with a struct gf_preload. It publishes the
 * returned struct gf_engine by one atomic store, and then runs the engine's watch(). Until the
 * store, every hook passes through. If gf_engine_start returns NULL, hooks pass through for the
 * life of the process. docs/concurrency.md lists the library's other threads.
 *
 * Hooks call the engine on the program's threads, possibly under the loader's lock (a constructor
 * may be calling CUDA). These functions never wait for another thread, never call back into a hook,
 * keep errno, and return quickly. Only the functions of `transfer` may wait, as the driver would.
 */
#ifndef GF_ABI_ENGINE_API_H
#define GF_ABI_ENGINE_API_H

#include "abi/cuda.h" /* struct gf_cuda: pointers to the driver's own functions */
#include "abi/gputime_api.h"
#include "abi/heap_api.h"
#include "abi/hook_counts.h"
#include "abi/journal_api.h"
#include "abi/python_api.h"
#include "abi/stall_api.h"
#include "abi/step_api.h"
#include "abi/transfer_api.h"
#include "base/cpus.h"
#include "config/options.h"
#include "config/startup_env.h"

#include <sys/types.h>

#define GF_ENGINE_FILE "libgpufeed-engine.so"
#define GF_ENGINE_START "gf_engine_start"

/* The owner of a thread. */
enum gf_thread_class {
    gf_thread_program, /* a thread of the program */
    /* A thread of the program that set its affinity or was created with one; never bound. */
    gf_thread_self_set,
    gf_thread_driver, /* created by libcuda */
    gf_thread_ours,   /* created by libgpufeed, or by a library that it uses */
};

struct gf_preload {
    uint32_t abi;  /* GF_ENGINE_ABI of abi/abi_hash.h: the hash of the contract headers */
    uint32_t size; /* sizeof(struct gf_preload); each side refuses a different value */
    const struct gf_options *options;
    const struct gf_startup_env *startup;
    _Atomic unsigned *permitted; /* system calls that the process may make: os/permit.h */
    const struct gf_cuda *cuda;
    /* The file of a preloaded library that replaces libcuda, or NULL. */
    const char *driver_shim;
    const struct gf_heap_ops *heap; /* its functions are NULL unless the heap is in replace mode */
    const char *version;
    pid_t caller; /* the thread that called cuInit; this thread may have ended */

    /*
     * The class of a live thread of this process, or of a thread of another process whose mask the
     * program set.
     */
    enum gf_thread_class (*thread_class)(pid_t tid);
    /* For the report: calls `fn` with the counts of each hook, until fn returns false. */
    void (*each_hook)(gf_hook_counts_fn *fn, void *closure);
    struct gf_submit_table *submissions;
    /* Finds the interpreter; false if none is loaded; any thread. */
    bool (*python)(struct gf_python *ret);
    /*
     * The event log, which the preload library writes. log_wanted: whether a log exists. log adds
     * an event, with its fields as a JSON object on one line. log_finish writes all complete lines;
     * afterwards each thread writes its own lines. Any thread.
     */
    bool (*log_wanted)(void);
    void (*log)(const char *event, const char *fields);
    void (*log_finish)(void);
    void (*log_count)(struct gf_journal_count *ret);
    /* Stalls so far of this process and its children, and the durations of the process's calls. */
    void (*stall_counts)(struct gf_stall_count ret[GF_CAUSE_COUNT]);
    void (*each_latency)(gf_latency_fn *fn, void *closure);
    void (*step_count)(struct gf_step_count *ret); /* the program's steps; any thread */
    /*
     * Sets the GPU that log lines about stalls of the heap name. NULL: the process uses several
     * GPUs.
     */
    void (*gpu_known)(const struct gf_stall_gpu *gpu);
};

/* How the use of a device was detected. Later values are stronger evidence. */
enum gf_sighting {
    gf_sighting_retained, /* its primary context was retained, or a context was created on it */
    gf_sighting_current,  /* a context of the device was made current */
    gf_sighting_memory,   /* `bytes` were allocated on it */
};

struct gf_engine {
    uint32_t abi;
    uint32_t size;
    /* Called only after the driver succeeded. Only gf_sighting_memory uses `bytes`. */
    void (*device_seen)(CUdevice device, enum gf_sighting how, uint64_t bytes);
    /* Called when a context is given work for the first time. May be NULL. */
    void (*work_seen)(void);
    /*
     * Called on the thread gf_preload.caller after the engine was published. Not called if that
     * thread stopped waiting for the engine.
     */
    void (*joined)(void);
    /*
     * Called on the library's own thread after publication, with all signals blocked. It may never
     * return.
     */
    void (*watch)(void);
    /* Called first in each thread that the program creates, before its start routine. */
    void (*thread_started)(void);
    /*
     * Called in a forked child of a process that has an engine. Does only async-signal-safe work.
     */
    void (*forked)(void);
    /*
     * Called before the calling thread, or a child of vfork, starts another program. Returns
     * whether it changed the thread's mask; then program_end undoes this, unless exec succeeded.
     * Both do only async-signal-safe work. Both may be NULL.
     */
    bool (*program_begin)(void);
    void (*program_end)(void);
    /*
     * The NUMA node of the process's GPU; -1 if unknown, if there are several, or in mode observe.
     */
    int (*gpu_node)(void);
    /*
     * Writes the current report. Like snprintf, returns the length that the whole report needs.
     * Returns 0 at exit, and if another thread takes longer than wait_ms to write a report.
     */
    size_t (*report)(char *buf, size_t size, unsigned wait_ms);
    /* Copies and pinned memory. NULL if the options turn both off. Constant after publication. */
    const struct gf_transfer_ops *transfer;
};

typedef const struct gf_engine *gf_engine_start_fn(const struct gf_preload *preload);

#endif
