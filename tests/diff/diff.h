/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of the differential tests. It makes a random program of CUDA calls from a seed, runs
 * it, and prints a line for each call: the arguments, the results, and a hash of the bytes that the
 * call may have changed. Two runs of one seed print the same, whatever library is preloaded. No
 * random choice depends on time. The program does not do, or does not print, anything that CUDA
 * leaves undefined (listed in docs/proof.md).
 */
#ifndef DIFF_H
#define DIFF_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct driver {
#define USE(name) __typeof__(name) *name;
#include "functions.def"
#undef USE
};

extern struct driver cu;

struct options {
    uint64_t seed;
    unsigned long calls; /* for each thread */
    unsigned threads;
    size_t largest; /* the largest copy, in bytes */
    bool fault;     /* the program breaks its context near the end */
    bool captures, forks;
    unsigned devices; /* 2: the context that the program creates is on the second device */
    /* no stream's work overwrites the sources of a batch before the stream is done */
    bool leaves_batches;
    bool errors; /* each line has errno after its calls */
};

extern struct options options;

enum {
    HOSTS = 24,
    DEVICES = 8,
    STREAMS = 6,
    WORLDS = 2,
    LEGACY = 0,
    OWN = 1,  /* the per-thread default stream */
    LOST = 7, /* bit of streams that were destroyed while they had work */
};

/* The kinds of host memory. */
enum kind {
    kind_none,
    kind_heap,
    kind_fresh, /* its pages were never touched */
    kind_private,
    kind_shared,
    kind_memfd,
    kind_file,
    kind_file_shared,
    kind_file_read_only,
    kind_read_only,
    kind_holes,   /* the pages before and after it are unmapped */
    kind_dropped, /* pages in its middle were freed by madvise */
    kind_huge,
    kind_static,
    kind_pageable, /* the number of pageable kinds */
    kind_pinned = kind_pageable,
    kind_pinned_v2, /* cuMemAllocHost */
    kind_registered,
    kind_half_registered,
    kind_managed,
    kind_count,
};

struct host {
    enum kind kind;
    unsigned char *at;
    size_t size;
    bool writable;
    void *map; /* the range to unmap */
    size_t map_size;
    unsigned char *pinned_at; /* the address to unregister */
    struct world *world;      /* the memory ends with this context */
    unsigned busy;            /* streams that may be using it, as bits of stream_bit */
};

struct device {
    CUdeviceptr at;
    size_t size;
    unsigned busy;
    bool pooled; /* allocated by cuMemAllocAsync */
};

struct stream {
    CUstream handle;
    bool blocking; /* it and the legacy stream wait for each other */
};

/* A context and its objects. */
struct world {
    unsigned number;
    CUcontext context; /* NULL if absent */
    struct stream stream[STREAMS];
    struct device device[DEVICES];
    CUevent event;
    CUfunction spin, trap;
};

struct thread {
    unsigned number;
    uint64_t state; /* of the random number generator */
    unsigned long calls;
    FILE *out;
    struct host host[HOSTS];
    struct world world[WORLDS], *now;
    unsigned renewed; /* how often the primary context was created again */
    bool ended;       /* the context is broken: only result codes are printed */
    struct {
        unsigned *busy, before;
    } ordered[16]; /* ordered in this action */
    unsigned orders;
};

/* random.c */
uint64_t any(struct thread *t, uint64_t below);
bool chance(struct thread *t, unsigned percent);
/* A log-uniform size from 1 to most. Odd sizes are as likely as round ones. */
size_t any_size(struct thread *t, size_t most);
/* Like any_size, for sizes of memory, which are larger on average. */
size_t any_room(struct thread *t, size_t most);
size_t any_offset(struct thread *t, size_t room); /* from 0 to room */
void fill(struct thread *t, void *at, size_t size);
uint64_t hash(const void *at, size_t size);

/* main.c: the transcript. CALL counts the call, prints it and returns its code. */
__attribute__((format(printf, 2, 3))) void say(struct thread *t, const char *format, ...);
void must(struct thread *t, CUresult result, const char *what);
void crash(struct thread *t, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
#define CALL(t, name, ...) ((t)->calls++, cu.name(__VA_ARGS__))
#define MUST(t, name, ...) must(t, CALL(t, name, __VA_ARGS__), #name)
/*
 * cuCtxSynchronize invalidates the captures of all threads, so this lock separates it from
 * captures.
 */
void captures_enter(void);
void captures_leave(void);
void quiet_enter(void);
void quiet_leave(void);

/* host.c */
bool host_pageable(const struct host *h);
/* Returns a random existing range, or NULL. If `writable`, the program may write to the range. */
struct host *any_host(struct thread *t, bool writable);
void host_make(struct thread *t, struct host *h, enum kind kind, size_t size);
void host_drop(struct thread *t, struct host *h);
void host_forget(struct thread *t, struct world *world); /* its context has ended */
void host_churn(struct thread *t);
/* Ends all use by streams, so that the host may touch the range. */
void host_settle(struct thread *t, struct host *h);
/* Returns a hash of a range and of some bytes before and after it. */
uint64_t host_hash(const struct host *h, const unsigned char *at, size_t size);
const char *kind_name(enum kind kind);

/* world.c */
void world_make(struct thread *t, struct world *w, bool primary);
void world_end(struct thread *t, struct world *w);
void world_switch(struct thread *t);
void act_primary(struct thread *t);
void device_make(struct thread *t, struct device *d, size_t size);
void device_drop(struct thread *t, struct device *d);
struct device *any_device(struct thread *t);
void streams_churn(struct thread *t);

/* order.c */
unsigned stream_bit(const struct world *w, int stream);
int any_stream(struct thread *t);
CUstream stream_handle(struct thread *t, int stream, bool *ret_thread_entry);
/*
 * Makes the stream wait for other streams that use the memory, and marks it as used by this stream.
 */
void order(struct thread *t, int stream, unsigned *busy);
/* The driver refused the work of this action, so the stream does not use the memory. */
void refused(struct thread *t);
void settle(struct thread *t, unsigned busy); /* waits until all of those streams are done */
void wait_for(struct thread *t, int stream);
void act_sync(struct thread *t);
void act_query(struct thread *t);
void act_kernel(struct thread *t);

/* event.c */
void act_event(struct thread *t);

/* copy.c */
/* The ends of a copy. */
struct ends {
    struct host *h;
    struct device *d;
    size_t host_at, device_at, size;
};
bool any_ends(struct thread *t, bool to_host, struct ends *ret);
void say_ends(struct thread *t, const char *what, const struct ends *e, int stream, CUresult code);
void act_h2d(struct thread *t);
void act_d2h(struct thread *t);
void act_d2d(struct thread *t);
void act_h2h(struct thread *t);
void act_memset(struct thread *t);
void act_peer(struct thread *t);
void read_back(struct thread *t, struct device *d, size_t at, size_t size);
/*
 * Called after a successful copy. Records which memory the program may touch now, and checks the
 * bytes that have arrived.
 */
void copied(struct thread *t, const struct ends *e, int stream, bool to_host, bool async);

/* block.c */
void act_2d(struct thread *t);
void act_3d(struct thread *t);
void act_batch(struct thread *t);

/* pin.c */
void act_pin_wrong(struct thread *t);
void act_pin_reuse(struct thread *t);
void act_register(struct thread *t);
void act_attributes(struct thread *t);
void act_fork(struct thread *t);

/* busy.c: copies behind work that another call must release */
void act_gate(struct thread *t);
void act_host_function(struct thread *t);

/* capture.c */
void act_capture(struct thread *t);

/* wrong.c */
void act_wrong(struct thread *t);
void act_without_context(struct thread *t);
void act_break(struct thread *t);

#endif
