/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads on which CPUs this process's threads may run, and on which nodes its pages are. This needs
 * no privilege: sched_getaffinity returns the masks, move_pages and /proc/self/numa_maps the nodes of
 * pages. Reading numa_maps takes about 9 ms per GiB, and holds a lock that page faults take, so it is
 * read at exit only, and for a move of the heap's pages where move_pages is refused.
 */
#pragma once

#include "abi/heap_api.h"
#include "abi/trace_api.h"
#include "base/cpus.h"

#define GF_LOCALITY_NODES 64 /* the last element also counts the pages on all higher nodes */

struct gf_pages { /* numbers of bytes on each node */
    uint64_t node[GF_LOCALITY_NODES];
    uint64_t total;
};

struct gf_locality {
    bool known;           /* false: the kernel does not tell, for example in some sandboxes */
    bool whole;           /* `other` is known, too */
    struct gf_pages heap; /* memory that the heap has mapped */
    /* Other anonymous memory: stacks, mappings of the program, shared memory. */
    struct gf_pages other;
    uint64_t usec; /* duration of the reading */
};

/*
 * Estimates on which nodes the heap's pages are, from the nodes of at most 4096 pages. Page faults wait
 * for at most 64 of them, so it may be called while the program runs. ranges: those of the heap.
 */
void gf_locality_sample(const struct gf_range *ranges, size_t count, struct gf_locality *ret);

/*
 * Reads on which nodes the pages are. file: "/proc/self/numa_maps" or a recorded file. ranges: the
 * ranges of the heap, which the function sorts.
 */
void gf_locality_pages(const char *file, struct gf_range *ranges, size_t count,
                       struct gf_locality *ret);

/*
 * Returns the share of the bytes that are on these nodes, in thousandths; 1000 if there are no
 * bytes.
 */
unsigned gf_pages_share(const struct gf_pages *pages, const struct gf_nodes *nodes);

struct gf_threads {     /* numbers of this process's threads by class and mask */
    unsigned program;   /* threads of the program */
    unsigned on_target; /* threads of the program that have the target mask */
    unsigned elsewhere; /* threads of the program that have another mask */
    unsigned self_set;  /* threads of the program that set their own mask */
    unsigned driver, driver_on_target;
    unsigned library; /* threads of libgpufeed */
};

/*
 * Counts the threads. owner: returns the class of a thread; if NULL, all threads count as the
 * program's. Allocates nothing.
 */
void gf_locality_threads(const struct gf_cpus *target, enum gf_thread_class (*owner)(pid_t tid),
                         struct gf_threads *ret);
