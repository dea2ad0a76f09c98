/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differential program: from a seed it makes a random program of CUDA calls, runs it, and
 * prints a line for each call: what was asked, what was answered, and a hash of the bytes that the
 * call may have changed. Two runs of one seed print the same, whatever lies between program and
 * driver. Nothing random depends on time; what a program may not rely on (docs/proof.md lists it)
 * is not done or not printed.
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
    unsigned long calls; /* of each thread */
    unsigned threads;
    size_t largest; /* copy */
    bool fault;     /* break the context near the end */
    bool captures, forks;
    unsigned devices; /* 2: the context that the program makes is on the second one */
    bool leaves_batches; /* alone: sources of all members, until their stream is done */
};

extern struct options options;

enum {
    HOSTS = 24,
    DEVICES = 8,
    STREAMS = 6,
    WORLDS = 2,
    LEGACY = 0,
    OWN = 1,  /* the per-thread default stream */
    LOST = 7, /* bit of a world for streams that were destroyed with work in them */
};

/* Memory of the host, of one of these kinds. */
enum kind {
    kind_none,
    kind_heap,
    kind_fresh, /* never touched */
    kind_private,
    kind_shared,
    kind_memfd,
    kind_file,
    kind_file_shared,
    kind_file_read_only,
    kind_read_only,
    kind_holes,   /* unmapped before and behind it */
    kind_dropped, /* pages given back in its middle */
    kind_huge,
    kind_static,
    kind_pageable, /* as many */
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
    void *map; /* what to unmap */
    size_t map_size;
    unsigned char *pinned_at; /* what to unregister */
    struct world *world;      /* whose context it dies with */
    unsigned busy;            /* streams that may be using it: bits, as stream_bit */
};

struct device {
    CUdeviceptr at;
    size_t size;
    unsigned busy;
    bool pooled; /* by cuMemAllocAsync */
};

struct stream {
    CUstream handle;
    bool blocking; /* waits for the legacy stream and reverse */
};

/* A context and what lives in it. */
struct world {
    unsigned number;
    CUcontext context; /* NULL: none */
    struct stream stream[STREAMS];
    struct device device[DEVICES];
    CUevent event;
    CUfunction spin, trap;
};

struct thread {
    unsigned number;
    uint64_t state; /* of random */
    unsigned long calls;
    FILE *out;
    struct host host[HOSTS];
    struct world world[WORLDS], *now;
    unsigned renewed; /* times that the primary context was made anew */
    bool ended; /* the context is broken: nothing but codes from now on */
    struct {
        unsigned *busy, before;
    } ordered[16]; /* in this action */
    unsigned orders;
};

/* random.c */
uint64_t any(struct thread *t, uint64_t below);
bool chance(struct thread *t, unsigned percent);
/* Log-uniform from 1 to most, odd sizes as likely as round ones. */
size_t any_size(struct thread *t, size_t most);
size_t any_room(struct thread *t, size_t most);   /* the same for memory: larger on average */
size_t any_offset(struct thread *t, size_t room); /* from 0 to room */
void fill(struct thread *t, void *at, size_t size);
uint64_t hash(const void *at, size_t size);

/* main.c: the transcript. CALL counts and returns the code. */
__attribute__((format(printf, 2, 3))) void say(struct thread *t, const char *format, ...);
void must(struct thread *t, CUresult result, const char *what);
void crash(struct thread *t, const char *format, ...) __attribute__((noreturn));
#define CALL(t, name, ...) ((t)->calls++, cu.name(__VA_ARGS__))
#define MUST(t, name, ...) must(t, CALL(t, name, __VA_ARGS__), #name)
/* cuCtxSynchronize kills the captures of all threads: it and they keep each other out. */
void captures_enter(void);
void captures_leave(void);
void quiet_enter(void);
void quiet_leave(void);

/* host.c */
bool host_pageable(const struct host *h);
/* One that exists, not used by a stream if `free`; NULL. writable: it may be written to. */
struct host *any_host(struct thread *t, bool writable);
void host_make(struct thread *t, struct host *h, enum kind kind, size_t size);
void host_drop(struct thread *t, struct host *h);
void host_forget(struct thread *t, struct world *world); /* its context is gone */
void host_churn(struct thread *t);
/* Ends all use by streams, so that the host may touch it. */
void host_settle(struct thread *t, struct host *h);
/* Hash of a range and of some bytes before and behind it. */
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
/* Makes the stream wait for other streams that use it; marks it used by this one. */
void order(struct thread *t, int stream, unsigned *busy);
/* What was ordered in this action was refused: nothing stands on the stream. */
void refused(struct thread *t);
void settle(struct thread *t, unsigned busy); /* waits until all of those streams are done */
void wait_for(struct thread *t, int stream);
void act_sync(struct thread *t);
void act_query(struct thread *t);
void act_kernel(struct thread *t);

/* event.c */
void act_event(struct thread *t);

/* copy.c */
/* Where in both a copy takes place. */
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
/* After a successful copy: what may be touched, what must wait; looks at what has arrived. */
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

/* busy.c: copies behind work that somebody must end */
void act_gate(struct thread *t);
void act_host_function(struct thread *t);

/* capture.c */
void act_capture(struct thread *t);

/* wrong.c */
void act_wrong(struct thread *t);
void act_without_context(struct thread *t);
void act_break(struct thread *t);

#endif
