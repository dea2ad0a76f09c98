/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded driver: where libcuda is mapped, and its own functions.
 *
 * The table is built when libcuda is first found, from that object's own symbol table. The library
 * never opens libcuda: it finds the one that the program opened. A driver shim (driver_shim.h)
 * counts as the driver, and the libcuda behind it is left alone.
 *
 * Any thread, under the loader's lock, in a constructor, in a forked child. Only the two functions
 * that say so wait. If several threads build a table at once, one publishes its table and the
 * others discard theirs. errno is kept.
 */
#ifndef GF_PRELOAD_HOOK_ORIGINALS_DRIVER_H
#define GF_PRELOAD_HOOK_ORIGINALS_DRIVER_H

#include "abi/cuda.h"
#include "base/base.h"

struct gf_driver {
    struct gf_cuda functions;
    uintptr_t start, end;               /* where libcuda, or the shim, is mapped */
    uintptr_t behind_start, behind_end; /* the libcuda behind a shim; 0 without a shim */
    _Atomic bool pinned;                /* the loader will not unload it any more */
};

/* NULL until libcuda has been seen. The table is never freed. */
const struct gf_driver *gf_driver(void);

/*
 * The driver, if `address` lies in it or in the shim; else NULL. Takes the loader's lock to keep
 * libcuda loaded, so it may be called only where the program takes that lock itself. A pending
 * dlerror is lost.
 */
const struct gf_driver *gf_driver_by_address(const void *address);

/* The driver's functions if the process has loaded libcuda in any way, else NULL. */
const struct gf_cuda *gf_driver_functions(void);

/*
 * Marks libcuda as never unloaded. Called after cuInit succeeded: the driver's threads then keep it
 * loaded. One store.
 */
void gf_driver_trust(void);

/* Keeps libcuda loaded for good. Takes the loader's lock. */
void gf_driver_pin(void);

/* Whether an address lies in libcuda or the shim. */
bool gf_driver_contains(const void *address);

#endif
