/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where door and engine meet: two structs of function pointers.
 *
 * The door (libgpufeed.so) is in every process; the engine (libgpufeed-engine.so) is opened once,
 * RTLD_LOCAL, after the first successful cuInit, on a thread of the door's own: our one thread. The
 * door finds gf_engine_start by name, hands it a struct gf_door and publishes the struct gf_engine
 * that comes back by one atomic store; until then, and for ever when it is NULL, every hook passes
 * through. The thread then belongs to the engine's watch().
 *
 * Calls into the engine come from hooks, on the program's threads, possibly under the loader's
 * lock (a constructor may be calling CUDA): they never wait for another thread, never call back
 * into a hook, keep errno, and return quickly; transfer's may wait as the driver would.
 */
#ifndef GF_HOOK_ENGINE_API_H
#define GF_HOOK_ENGINE_API_H

#include "base/cpus.h"
#include "config/birth.h"
#include "config/options.h"
#include "heap/heap.h"
#include "hook/cuda.h" /* struct gf_cuda: typed pointers to the driver's own functions */
#include "hook/transfer_api.h"
#include "observe/journal.h"
#include "observe/stall.h"
#include "observe/tally.h"

#include <sys/types.h>

#define GF_ENGINE_FILE "libgpufeed-engine.so"
#define GF_ENGINE_START "gf_engine_start"

/* Who a thread belongs to. */
enum gf_thread_class {
    gf_thread_program,  /* ordinary */
    gf_thread_self_set, /* set its own affinity, or was created with one: left alone for good */
    gf_thread_driver,   /* made by libcuda */
    gf_thread_ours,     /* the one that the door made, and what it or a library of ours makes */
};

struct gf_door {
    uint32_t abi;  /* GF_ENGINE_ABI */
    uint32_t size; /* sizeof(struct gf_door); a door and an engine of different builds part ways */
    const struct gf_options *options;
    const struct gf_birth *birth;
    const struct gf_cuda *cuda;
    const char *stand_in; /* the file of a preload that has the driver's place; NULL */
    const struct gf_heap_ops *heap; /* NULL functions inside unless the heap is in replace mode */
    const char *version;
    pid_t caller; /* the thread whose cuInit it was; it may have ended */

    /* The class of a live thread of this process (or of any pid that the program set a mask for). */
    enum gf_thread_class (*thread_class)(pid_t tid);
    /* How often each hook was called, by name, for the report. Stops at the first false. */
    void (*each_hook)(gf_tally_see *see, void *closure);
    /*
     * The event log, which the door writes: whether there is one, an event whose fields are a JSON
     * object on one line, and writing at once what has been said. Any thread.
     */
    bool (*log_wanted)(void);
    void (*log)(const char *event, const char *fields);
    void (*log_finish)(void);
    void (*log_count)(struct gf_journal_count *ret);
    /* Stalls so far, this process's and its children's, and how long its calls took. */
    void (*stall_counts)(struct gf_stall_count ret[GF_CAUSE_COUNT]);
    void (*each_latency)(gf_latency_see *see, void *closure);
    /* The one GPU that this process feeds, for the stalls of its heap; NULL: several. */
    void (*gpu_known)(const struct gf_stall_gpu *gpu);
};

/* How a device came to be known: later ones are stronger evidence. */
enum gf_sighting {
    gf_sighting_retained, /* its primary context was retained or a context was created on it */
    gf_sighting_current,  /* a context of it was made current */
    gf_sighting_memory,   /* `bytes` were allocated on it */
};

struct gf_engine {
    uint32_t abi;
    uint32_t size;
    /* After the driver's own success only. bytes counts for gf_sighting_memory. */
    void (*device_seen)(CUdevice device, enum gf_sighting how, uint64_t bytes);
    /* By door.caller when it saw the engine published; not if it could not wait for that long. */
    void (*joined)(void);
    /* On our thread, all signals blocked, once published. It may stay there for ever. */
    void (*watch)(void);
    /* First thing in a thread that the program created, before its start routine. */
    void (*thread_born)(void);
    /* In the forked child of a process that has an engine; only async-signal-safe work. */
    void (*forked)(void);
    /* The NUMA node that the program's memory and threads are given; -1 while unknown. */
    int (*gpu_node)(void);
    /* Copies and pinned memory; NULL where none of it is wanted. The same for the process's life. */
    const struct gf_transfer_ops *transfer;
};

/*
 * Goes up when something changes its meaning; what changes its size is seen by that. A package may be upgraded between
 * a process's start, which loads the door, and its cuInit, which loads the engine: two builds part ways.
 */
#define GF_ENGINE_ABI ((uint32_t)(2u << 24 | (GF_SHARED_TABLES + GF_SHARED_ANSWERS + GF_SHARED_HEAP)))
#define GF_SHARED_TABLES                                                                            \
    (sizeof(struct gf_options) + sizeof(struct gf_birth) + sizeof(struct gf_cuda) +                 \
     sizeof(struct gf_heap_ops) + sizeof(struct gf_transfer_ops))
/* What one fills in memory of the other's. */
#define GF_SHARED_ANSWERS                                                                           \
    (sizeof(struct gf_stall_count[GF_CAUSE_COUNT]) + sizeof(struct gf_stall_gpu) +                  \
     sizeof(struct gf_journal_count) + sizeof(struct gf_tally) + sizeof(struct gf_latency) +        \
     sizeof(struct gf_copy_call))
#define GF_SHARED_HEAP                                                                              \
    (sizeof(struct gf_nodes) + sizeof(struct gf_range) + sizeof(struct gf_heap_stats) +             \
     sizeof(struct gf_heap_setting) + sizeof(struct gf_heap_huge) + sizeof(struct gf_heap_touch) +  \
     sizeof(struct gf_heap_kept))

typedef const struct gf_engine *gf_engine_start_fn(const struct gf_door *door);

#endif
