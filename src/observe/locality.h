/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this process's threads and pages are, read back from the kernel. Needs no privilege: masks
 * by sched_getaffinity, pages from /proc/self/numa_maps (about 9 ms per GiB, under the lock that
 * page faults share, so: not often).
 */
#ifndef GF_OBSERVE_LOCALITY_H
#define GF_OBSERVE_LOCALITY_H

#include "base/cpus.h"
#include "heap/heap.h"

#include <sys/types.h>

#define GF_LOCALITY_NODES 64 /* nodes with a higher number are counted together, as the last */

struct gf_pages { /* bytes by node */
    uint64_t node[GF_LOCALITY_NODES];
    uint64_t total;
};

struct gf_locality {
    bool known;            /* false: numa_maps cannot be read (old sandbox) */
    struct gf_pages heap;  /* mapped by the heap */
    struct gf_pages other; /* other anonymous memory: stacks, mmap of the program, shared memory */
    uint64_t usec;         /* what reading took */
};

/* file: "/proc/self/numa_maps" or a recorded one. ranges are the heap's, any order; sorted here. */
void gf_locality_pages(const char *file, struct gf_range *ranges, size_t count,
                       struct gf_locality *ret);

/* Share of the bytes on these nodes in thousandths; 1000 when there are none. */
unsigned gf_pages_share(const struct gf_pages *pages, const struct gf_nodes *nodes);

enum gf_mask_owner { gf_mask_program, gf_mask_self_set, gf_mask_driver, gf_mask_ours };

struct gf_threads { /* this process's threads by who they are and what their mask is now */
    unsigned program;   /* all that are the program's */
    unsigned on_target; /* of these: mask equals target */
    unsigned elsewhere; /* of these: another mask */
    unsigned self_set;  /* set their own */
    unsigned driver, driver_on_target;
    unsigned ours;
};

/* owner may be NULL: all are the program's. Allocates nothing. */
void gf_locality_threads(const struct gf_cpus *target, enum gf_mask_owner (*owner)(pid_t tid),
                         struct gf_threads *ret);

#endif
