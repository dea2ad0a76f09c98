/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of the simulated driver. One lock protects all of its state, and no code of the
 * program runs while it is held. Where a comment says "locked", the caller holds the lock.
 */
#ifndef SIM_H
#define SIM_H

#pragma GCC visibility push(default)
#include "../../src/abi/cuda_newer.h"
#pragma GCC visibility pop

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SIM_DEVICES_MAX 16
#define SIM_DRIVER_VERSION 13000
#define SIM_PAGE ((size_t)4096)

/*
 * Begins a function: applies a planned fault or delay, then checks whether the process may call the
 * driver at all. The thread cannot be cancelled until the function returns, because it may hold the
 * lock.
 */
#define SIM_ENTER(name)                                                                            \
    __attribute__((cleanup(sim_leave), unused)) int cancel_ = sim_hold_cancel();                   \
    do {                                                                                           \
        CUresult enter_ = sim_enter(name);                                                         \
        if (enter_)                                                                                \
            return enter_;                                                                         \
    } while (0)

/* Like SIM_ENTER, but also requires a live current context: `context`. */
#define SIM_ENTER_CONTEXT(name, context)                                                           \
    struct sim_context *context;                                                                   \
    __attribute__((cleanup(sim_leave), unused)) int cancel_ = sim_hold_cancel();                   \
    do {                                                                                           \
        CUresult enter_ = sim_enter(name);                                                         \
        if (!enter_)                                                                               \
            enter_ = sim_context_current(&context);                                                \
        if (enter_)                                                                                \
            return enter_;                                                                         \
    } while (0)

#define SIM_UNPACK(...) __VA_ARGS__

/*
 * Defines a function and its per-thread twin. Both call `work`, with an argument that says whether
 * NULL means the thread's own stream.
 */
#define SIM_TWINS(name, suffix, work, params, args)                                                \
    CUresult name params                                                                           \
    {                                                                                              \
        SIM_ENTER(#name);                                                                          \
        return work(false, SIM_UNPACK args);                                                       \
    }                                                                                              \
    CUresult name##suffix params                                                                   \
    {                                                                                              \
        SIM_ENTER(#name #suffix);                                                                  \
        return work(true, SIM_UNPACK args);                                                        \
    }

/* SIM_BATCH: when the sources of a batch's members are read. */
enum sim_batch { sim_batch_measured, sim_batch_early, sim_batch_late, sim_batch_forgets };

struct sim_config {
    int devices;
    struct {
        char pci[16];
        char name[64];
        CUuuid uuid;
    } device[SIM_DEVICES_MAX];
    int host_numa_id;
    size_t memory; /* bytes per device */
    bool late;     /* SIM_DMA=late */
    unsigned late_ms;
    uint64_t pageable_rate, link_rate; /* limits of a copy in bytes per second; 0: no limit */
    enum sim_batch batch;
    bool turns;     /* SIM_TURNS=1 */
    bool exclusive; /* SIM_EXCLUSIVE=1 */
    int error;      /* SIM_ERRNO */
};

extern pthread_mutex_t sim_lock;
/* broadcast whenever work completes or a thread begins to wait for it */
extern pthread_cond_t sim_done;
extern struct sim_config sim_config;

/* state.c */
CUresult sim_enter(const char *name);
int sim_hold_cancel(void);
void sim_leave(const int *cancel);
uint64_t sim_next_id(void); /* locked */
void sim_sleep_ns(uint64_t ns);
uint64_t sim_now_ns(void);
void sim_start_thread(const char *name);

/* config.c */
void sim_config_read(void);

/* fault.c */
CUresult sim_fault(const char *name);

/* device.c */
struct sim_device {
    int index; /* index in sim_config */
    size_t used;
    struct sim_context *primary;
    unsigned retained;
    unsigned primary_flags;
    CUresult broken; /* error of a reset device after a fault; 0: none */
    struct sim_pool *default_pool, *pool;
};

extern int sim_device_count;
extern struct sim_device sim_devices[SIM_DEVICES_MAX];
void sim_devices_make(void);

/* context.c */
struct sim_context {
    struct sim_context *next;
    int device;
    bool primary, green, dead;
    unsigned flags, api, attached;
    uint64_t id;
    CUresult sticky; /* result of every call after a fault on the device */
    uint64_t host_tickets, host_served;
    struct sim_stream *streams, *legacy;
    bool in_turn[2]; /* SIM_TURNS: a thread is copying pageable memory to the host, or from it */
    size_t limit[CU_LIMIT_MAX];
    CUfunc_cache cache;
    CUsharedconfig shared;
};

CUresult sim_context_current(struct sim_context **ret);
struct sim_context *sim_context_of(CUcontext handle); /* locked; NULL if not found */
CUresult
sim_context_state(const struct sim_context *context); /* result of calls on it; NULL: no context */
CUcontext sim_context_handle(const struct sim_context *context);
void sim_context_forget(struct sim_context *context); /* locked; memory.c */
struct sim_context *sim_context_make(int device, unsigned flags, bool primary,
                                     unsigned api); /* locked */
void sim_context_end(struct sim_context *context);  /* locked */

extern struct sim_context *sim_contexts; /* all contexts so far, ended ones included */

/*
 * green.c: finds the context of a stream. If it is a green context, sets *ret_green, and *ret to
 * the primary context to which it belongs.
 */
void sim_green_of(CUcontext context, CUcontext *ret, CUgreenCtx *ret_green);

/* work.c */
struct sim_dep {
    struct sim_stream *stream;
    uint64_t seq;
};

struct sim_op {
    struct sim_op *next;
    uint64_t seq;
    bool late;   /* may be postponed until a thread waits for it */
    bool always; /* runs even in a broken context: only reads the clock or frees memory */
    bool host;   /* calls a function of the program */
    uint64_t ticket;
    unsigned deps;
    struct sim_dep *dep;
    void (*run)(struct sim_op *op); /* on the stream's thread, without the lock */
    struct sim_context *context;
    uint64_t payload[];
};

struct sim_stream {
    struct sim_stream *next;
    struct sim_context *context;
    unsigned flags;
    int priority;
    uint64_t id, submitted, completed, wanted;
    bool started, dead, internal;
    bool in_turn; /* SIM_TURNS: a copy on this stream has not returned */
    /* A thread is inside a batch on this stream; other threads' calls wait. */
    bool in_batch;
    pthread_t batcher;
    pthread_cond_t work;
    struct sim_op *head, *tail;
    struct sim_dep *pending; /* event waits that the next operation inherits */
    unsigned pendings;
    struct sim_capture *capture;
    /* its position in the capture, and the position that other streams wait for */
    uint64_t capture_last, capture_joined;
};

struct sim_op *sim_op_new(void (*run)(struct sim_op *), size_t payload);
uint64_t sim_submit(struct sim_stream *stream, struct sim_op *op); /* locked */
/*
 * Locked. Host functions of a context run one at a time, in the order in which they became ready.
 */
void sim_take_turn(struct sim_context *context, uint64_t ticket);
void sim_end_turn(struct sim_context *context);
/* Locked; says that a thread waits for this operation. */
void sim_want(struct sim_stream *stream, uint64_t seq);
void sim_wait(struct sim_stream *stream, uint64_t seq); /* locked; unlocks to wait */
void sim_wait_stream(struct sim_stream *stream); /* locked; counts as a synchronisation with it */
void sim_wait_context(struct sim_context *context);                                     /* locked */
void sim_wait_device(int device);                                                       /* locked */
bool sim_stream_idle(struct sim_stream *stream);                                        /* locked */
void sim_stream_depend(struct sim_stream *stream, struct sim_stream *on, uint64_t seq); /* locked */

void sim_break(struct sim_context *context, CUresult error); /* later calls return the error, too */

/*
 * stream.c. A NULL handle means the legacy stream, or the thread's own stream if per_thread is set.
 */
struct sim_stream *sim_stream_make(struct sim_context *context, unsigned flags,
                                   int priority); /* locked */
CUresult sim_stream_of(struct sim_context *context, CUstream handle, bool per_thread,
                       struct sim_stream **ret); /* locked */
/* As sim_stream_of, for a call with a current context. Takes the lock, and keeps it on success. */
CUresult sim_stream_enter(CUstream handle, bool per_thread, struct sim_stream **ret);
/* Locks the stream for a batch of the calling thread. No other thread's work gets between. */
CUresult sim_batch_begin(CUstream handle, bool per_thread, struct sim_stream **ret);
void sim_batch_end(struct sim_stream *stream);

/* memory.c */
enum sim_kind { sim_none, sim_device_memory, sim_host_alloc, sim_registered, sim_managed };

struct sim_range {
    struct sim_range *next;
    enum sim_kind kind;
    uintptr_t start;
    size_t size; /* as the program requested */
    uintptr_t map_start;
    size_t map_size; /* size of the driver's mapping that contains it */
    size_t mapped;   /* bytes that are mapped at start; for device memory, also at backing */
    char *backing;   /* where the simulated device reads and writes */
    unsigned flags;
    uint64_t id;
    struct sim_context *context;
    int device;
    struct sim_pool *pool;
    bool sync_memops;
    bool captured; /* allocated by a stream that was capturing */
};

/* The simulator's descriptors. They have high numbers, because a program may replace low ones. */
enum sim_file { sim_file_maps, sim_file_zero, sim_file_count };
void sim_files_open(void); /* at cuInit */
int sim_file(enum sim_file which);

struct sim_range *sim_range_at(uintptr_t address);               /* locked */
struct sim_range *sim_range_meets(uintptr_t start, size_t size); /* locked */
void sim_range_add(struct sim_range *range);                     /* locked */
void sim_range_remove(struct sim_range *range);                  /* locked; frees the struct */
CUresult sim_device_alloc(struct sim_context *context, size_t size, struct sim_range **ret);
void sim_device_free(struct sim_range *range); /* locked */

/* pinned.c */
bool sim_pinned_alloc(struct sim_range *range, size_t size, bool apart); /* locked */
void sim_pinned_free(struct sim_range *range);                           /* locked */

/* capture.c */
/* Locked; for a synchronisation of the whole context. */
CUresult sim_capture_synchronizes(struct sim_context *context);
CUresult
/* locked; for synchronous calls that do not wait for the stream */
sim_capture_implicit(struct sim_stream *stream);
/* Locked; for a call that synchronises with it. */
CUresult sim_capture_refuses(struct sim_stream *stream);
/* Locked; called when the stream is destroyed. */
void sim_capture_abandon(struct sim_stream *stream);
/* locked; returns 900 if a capture forbids the call, and invalidates that capture */
CUresult sim_unsafe(void);
/* Locked. Submits the operation, or adds it to the stream's capture (*ret_seq is 0 then). */
CUresult sim_issue(struct sim_stream *stream, CUgraphNodeType type, struct sim_op *op,
                   uint64_t *ret_seq);
/* Locked. `stream` waits for the work of `from`, which is capturing, up to `last`. */
void sim_capture_join(struct sim_stream *stream, struct sim_stream *from, uint64_t last);

/* graph.c */
/* Locked. Adds a node for the operation. Returns CUDA_ERROR_INVALID_VALUE if op is NULL. */
CUresult sim_graph_add_op(CUgraphNode *ret, CUgraph graph, CUgraphNodeType type, struct sim_op *op);

/* hostfunc.c */
struct sim_op *sim_host_op(CUhostFn function, void *data);

#endif
