/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address ranges that jemalloc has mapped, and the memory policy that new ones get. Any thread,
 * also with jemalloc's locks held: this module's lock is taken last.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_MAPPINGS_H
#define GF_PRELOAD_HEAP_PAGES_MAPPINGS_H

#include "abi/heap_api.h"

/* Registers the lock's fork handlers. Once, before jemalloc's: a fork then takes this lock last. */
void gf_mappings_init(void);

/* Records a range that was mapped. */
void gf_mappings_add(uintptr_t start, size_t size);
/* Removes a range that is about to be unmapped: afterwards another thread can get the addresses. */
void gf_mappings_remove(uintptr_t start, size_t size);

/* Gives a new mapping the policy of gf_mappings_set_node. May change errno. */
void gf_mappings_apply_policy(void *start, size_t size);

/* Bytes that are mapped now, jemalloc's own tables included. */
uint64_t gf_mappings_bytes(void);

/* The i-th range; false beyond the last. */
bool gf_mappings_at(size_t i, struct gf_range *ret);

/*
 * Whether the kernel would map another `size` bytes that count as used memory. ulimit -v, ulimit
 * -d, strict overcommit, and the sum of memory and swap limit this. Keeps errno.
 */
bool gf_mappings_fit(size_t size);

/* gf_heap_ops: set_node, refused, refused_errno, ranges */
void gf_mappings_set_node(int policy, const struct gf_nodes *nodes);
uint64_t gf_mappings_refused(void);
int gf_mappings_refused_errno(void);
size_t gf_mappings_ranges(struct gf_range *ret, size_t cap);

#endif
