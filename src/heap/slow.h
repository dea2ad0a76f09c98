/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can make a call of the heap slow, timed exactly and only there: waiting for a lock of
 * jemalloc's, the system calls, birth of an arena, copying and clearing of large blocks. The fast
 * path knows nothing of it. A call is what happens inside the outermost frame; its clock starts at
 * the first slow part. Nothing in here allocates, locks or changes errno.
 */
#ifndef GF_HEAP_SLOW_H
#define GF_HEAP_SLOW_H

#include "base/base.h"

#include <sys/types.h>

enum gf_slow_part {
    gf_slow_lock,   /* waiting for a lock of jemalloc's */
    gf_slow_purge,  /* in madvise, giving pages back */
    gf_slow_map,    /* in mmap, and what the new mapping is given (node, huge pages) */
    gf_slow_unmap,
    gf_slow_setup,  /* a new arena */
    gf_slow_huge,   /* in the first touch of a new mapping, with the kernel asked for a huge page */
    GF_SLOW_PARTS,
};

enum gf_slow_call {
    gf_slow_other, /* inside jemalloc, for no call of the program's */
    gf_slow_malloc,
    gf_slow_calloc,
    gf_slow_realloc,
    gf_slow_memalign,
    gf_slow_free,
    GF_SLOW_CALLS,
};

/* The thread's account. CPU time is by its clock: getrusage's is as of the last tick. */
struct gf_slow_usage {
    bool known;
    uint64_t cpu_us;
    uint64_t minor, major;         /* page faults */
    uint64_t voluntary, forced;    /* switches */
};

struct gf_slow {
    enum gf_slow_call call;
    size_t size; /* 0: not known */
    const void *block; /* that was handed out; NULL: none, or it is gone */
    size_t work; /* bytes that were cleared or copied outside of the parts; 0: few */
    bool locked; /* a lock of jemalloc's may be held: the stack must not be walked */
    bool forked; /* the process forked meanwhile */
    bool foreign; /* another allocator's: none of its parts is timed */
    uint64_t start_ns, end_ns;
    uint64_t part_ns[GF_SLOW_PARTS];
    unsigned part_count[GF_SLOW_PARTS];
    uint64_t part_bytes[GF_SLOW_PARTS];
    struct gf_slow_usage before; /* when the clock started; not known for what began with a lock */
};

/* Work from which on before_work is called: a look at the system costs nothing beside it. */
#define GF_SLOW_MUCH_WORK ((size_t)8 << 20)

struct gf_slow_watcher {
    /* Each call that took longer than the threshold, on its thread, with nothing of the heap held
     * unless slow->locked. */
    void (*report)(const struct gf_slow *slow);
    void (*before_work)(void);
    /* A call that was chosen by chance, whatever it took. */
    void (*sampled)(enum gf_slow_call call, size_t size, uint64_t ns);
};

/*
 * From now on the watcher is called; threshold 0 ends that. Once jemalloc is up, so that the
 * handlers of forks see its locks taken between them.
 */
void gf_slow_watch(uint64_t threshold_ns, const struct gf_slow_watcher *watcher);
/* Before such a touch: as before_work, where that has not been called already. */
void gf_slow_before_huge(void);
uint64_t gf_slow_threshold(void);
/* All calls are another allocator's (watched.c). */
void gf_slow_foreign(void);
void gf_slow_sampled(enum gf_slow_call call, size_t size, uint64_t ns);
void gf_slow_usage(struct gf_slow_usage *ret);
/* Whether the process was forking at some time in between. */
bool gf_slow_forked(uint64_t start_ns, uint64_t end_ns);

/* Around a part; `mark` goes from one to the other. */
struct gf_slow_mark {
    uint64_t at;     /* 0: nobody watches */
    uint64_t nested; /* what inner parts had taken before this one */
};
struct gf_slow_mark gf_slow_begin(enum gf_slow_part part);
void gf_slow_end(const struct gf_slow_mark *mark, enum gf_slow_part part, size_t bytes);

/*
 * Around a call that may copy or clear `work` bytes: if these or its size are many its clock starts
 * at once.
 * Inside another frame neither does anything. False: the frame is not to be left. block: what the call
 * hands out, or NULL.
 */
bool gf_slow_enter(enum gf_slow_call call, size_t size, size_t work);
void gf_slow_leave(const void *block);

#endif
