/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this process's threads and pages are, as the kernel reports without privilege: masks by
 * sched_getaffinity, nodes of pages by /proc/self/numa_maps. Reading numa_maps takes about 9 ms for
 * 1 GiB and holds the lock that page faults share, so it is done rarely.
 */
#ifndef GF_ENGINE_MACHINE_LOCALITY_H
#define GF_ENGINE_MACHINE_LOCALITY_H

#include "base/cpus.h"
#include "abi/heap_api.h"

#include <sys/types.h>

#define GF_LOCALITY_NODES 64 /* the last one also counts all higher nodes */

struct gf_pages { /* bytes on each node */
    uint64_t node[GF_LOCALITY_NODES];
    uint64_t total;
};

struct gf_locality {
    bool known;            /* false: numa_maps cannot be read, as in some sandboxes */
    struct gf_pages heap;  /* mapped by the heap */
    struct gf_pages other; /* other anonymous memory: stacks, mmap of the program, shared memory */
    uint64_t usec;         /* duration of the reading */
};

/*
 * file: "/proc/self/numa_maps" or a recorded one. ranges are those of the heap; the function sorts
 * them.
 */
void gf_locality_pages(const char *file, struct gf_range *ranges, size_t count,
                       struct gf_locality *ret);

/* The share of the bytes that is on these nodes, in thousandths; 1000 if there are no bytes. */
unsigned gf_pages_share(const struct gf_pages *pages, const struct gf_nodes *nodes);

enum gf_mask_owner { gf_mask_program, gf_mask_self_set, gf_mask_driver, gf_mask_library };

struct gf_threads {     /* this process's threads by class and mask */
    unsigned program;   /* threads of the program */
    unsigned on_target; /* those of the program's threads that have the target mask */
    unsigned elsewhere; /* those of the program's threads that have another mask */
    unsigned self_set;  /* threads that set their own mask */
    unsigned driver, driver_on_target;
    unsigned library; /* threads of libgpufeed */
};

/* If owner is NULL, all threads count as the program's. Allocates nothing. */
void gf_locality_threads(const struct gf_cpus *target, enum gf_mask_owner (*owner)(pid_t tid),
                         struct gf_threads *ret);

#endif
