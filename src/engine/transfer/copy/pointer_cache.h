/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A direct-mapped cache of the driver's answers about memory; in a collision, the new answer
 * overwrites the old one. It is used for copies that are only counted, not staged. On few CPUs many
 * callers contend for the driver's lock, so each query would delay the driver's copies.
 *
 * An answer of the cache may be stale. If memory is freed and allocated in another way, the cache
 * keeps the old kind until the driver is queried again, which each thread does at every 16th
 * lookup. So only counts may depend on the cache. The functions may be called on any thread.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_POINTER_CACHE_H
#define GF_ENGINE_TRANSFER_COPY_POINTER_CACHE_H

#include "base/base.h"
#include "abi/cuda.h"

enum gf_memory {
    gf_memory_pageable,
    gf_memory_device, /* includes managed memory */
    gf_memory_other,  /* page-locked: allocated by the driver, or registered */
    gf_memory_unknown,
};

/*
 * Returns the kind of the 64 KiB of memory that contain an address. gf_memory_unknown: the cache
 * does not know the kind, so the caller queries the driver and stores the answer.
 */
enum gf_memory gf_pointer_cache_get(CUdeviceptr at);
void gf_pointer_cache_put(CUdeviceptr at, enum gf_memory kind);

#endif
