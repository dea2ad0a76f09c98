/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap: jemalloc, embedded, and what the engine may ask of it. The exported malloc family is in
 * src/heap too; it decides its mode at the first call, before any constructor.
 */
#ifndef GF_HEAP_HEAP_H
#define GF_HEAP_HEAP_H

#include "base/base.h"
#include "base/cpus.h"

#include <sys/types.h>

enum gf_heap_mode {
    gf_heap_mode_undecided = 0,
    gf_heap_mode_replace, /* jemalloc serves malloc */
    gf_heap_mode_next,    /* the next allocator in search order serves it: off, observe, wrap, foreign page size */
    gf_heap_mode_sampled, /* jemalloc too, and a few calls are timed; never the mode of gf_heap_ops */
};

/* A piece of address space that the heap has mapped. */
struct gf_range {
    uintptr_t start;
    size_t size;
};

struct gf_heap_stats {
    uint64_t mapped, active, allocated; /* bytes, from jemalloc; 0 when it keeps no statistics */
    unsigned arenas;
};

/* What the heap does with freed pages: src/heap/keep.h. */
struct gf_heap_kept {
    bool ours;       /* false: a user's MALLOC_CONF sets the decay, and nothing is done beyond it */
    uint64_t most;   /* bytes that are kept, at most: memory that was never touched counts too */
    uint64_t freed;  /* bytes freed since all was last lent: at most so many are dirty */
    uint64_t bound;  /* so many may be dirty */
    uint64_t room;   /* what the process could still take, at the last look */
    uint64_t looks, lends, give_backs;
    uint64_t lent_bytes, given_back_bytes; /* so far, by whatever reason */
};

/* Huge pages: src/heap/huge.h. */
struct gf_heap_huge {
    bool on;
    const char *reason; /* why, or why not */
    uint64_t asked_bytes;   /* of new mappings that were large enough */
    uint64_t advised_bytes; /* of these, whose first huge page came quickly */
};

/* Estimates, from samples: src/heap/touch.h. */
struct gf_heap_touch {
    uint64_t looks, timed;  /* blocks looked at; faults timed */
    uint64_t missing_bytes; /* of large blocks, not there when they were handed out, and touched since or alive */
    uint64_t again_bytes;   /* of these: had been there before, and were purged */
    uint64_t us;            /* what their first touch takes */
    uint64_t ns_per_mib;    /* at the latest sample */
};

/* One setting in force, and why. */
struct gf_heap_setting {
    const char *name; /* jemalloc's, or ours */
    char value[24];   /* read back */
    bool ours;        /* false: a user's MALLOC_CONF or /etc/malloc.conf sets it otherwise */
    const char *reason;
};

struct gf_heap_ops {
    enum gf_heap_mode mode;
    const char *mode_reason; /* "GPUFEED_HEAP=off", "tcmalloc is preloaded", ... never NULL */
    /*
     * From now on each new mapping of the heap gets this memory policy (MPOL_PREFERRED or
     * MPOL_BIND) by mbind; policy 0 ends that. A refused mbind is counted, never an error.
     */
    void (*set_node)(int policy, const struct gf_nodes *nodes);
    uint64_t (*refused)(void); /* mbind calls that the kernel refused, and the last errno */
    int (*refused_errno)(void);
    /*
     * Copies up to cap ranges that are mapped now; returns how many there are (may exceed cap), or
     * SIZE_MAX when the table overflowed at some time, so that what was copied is not all; unused
     * entries of ret are then of size 0.
     */
    size_t (*ranges)(struct gf_range *ret, size_t cap);
    /* Threads born from now on share this many arenas: as many as CPUs they may use. */
    void (*set_cpus)(unsigned cpus);
    /* From now on a fork copies fewer pages of the heap's. Takes milliseconds; may change nothing. */
    void (*ease_forks)(void);
    /* Times the next so many calls, for the histograms. */
    void (*sample)(unsigned calls);
    /* In mode next, where watching is wished: times the other allocator's large calls from now on. */
    void (*watch)(void);
    void (*stats)(struct gf_heap_stats *ret);
    /* The i-th; false where there are no more. */
    bool (*setting)(size_t i, struct gf_heap_setting *ret);
    void (*huge)(struct gf_heap_huge *ret);
    void (*touch)(struct gf_heap_touch *ret);
    void (*kept)(struct gf_heap_kept *ret); /* some loads */
    /*
     * From now on, until the process ends or forks, the caller lends in time: more may be dirty. wake is
     * called once, from within a free, when much is; again only if this is called again.
     */
    void (*watched)(void (*wake)(void));
    /*
     * Freed pages: to the kernel if it wants them; to the kernel now. Any thread that holds no lock
     * of ours. False when nothing was done: another thread is at it, or it is not ours to do.
     */
    bool (*lend)(void);
    bool (*give_back)(void);
};

/*
 * Decides the mode and brings jemalloc up; called by every entry point, idempotent, any thread,
 * before main. The pthread_create hook calls it before the first thread is made.
 */
void gf_heap_init(void);
/* Around a call of libc's that registers handlers of forks: forks wait for it, and it for them. Not inside the heap. */
void gf_heap_registers(void);
void gf_heap_registered(void);
/*
 * Whether the loader is done with us. It is not when an indirect function's resolver calls: what then runs may use no
 * pointer table, no thread-local variable and no function of another object.
 */
bool gf_heap_loaded(void);
const struct gf_heap_ops *gf_heap_ops(void);
/*
 * Makes lookups that start at libc find what serves malloc. Such a lookup needs a handle or a
 * library that was opened, so the first dlopen pays for it, not each process that allocates.
 * False where that is impossible: then no library may be opened with RTLD_DEEPBIND.
 */
bool gf_heap_before_dlopen(void);
/* Called once when the mode is decided, perhaps before main; the door has it. */
void gf_heap_ready(void) __attribute__((weak));
/* First thing in a thread that the program created: takes its arena from those of set_cpus. */
void gf_heap_thread_born(void);
/*
 * First thing in our own thread and in the driver's, which hardly allocate: they share the main
 * thread's arena. Each has some forty locks on nine pages, which every fork of the process takes and
 * thus copies, twice: 30 us. For none that never allocates: it would begin with a cache.
 */
void gf_heap_thread_aside(void);

#endif
