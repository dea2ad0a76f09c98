/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "base/base.h"
#include "base/symbols.h"

/*
 * A driver shim is a library, preloaded after this one, that replaces the driver, such as Nsight
 * Compute's libcuda-injection.so. A shim defines cuInit and dlopen. When a program opens libcuda,
 * the shim returns a handle of the first object that defines dlopen, which it assumes to be the
 * shim itself. But the first object that defines dlopen is this library. So the program gets a
 * handle of this library, and uses it to look up functions that only the shim has.
 */

/*
 * Returns the shim's cuInit; NULL without a shim. Searches once, in the objects that were loaded
 * when the process started. May be called on any thread.
 */
const struct gf_symbol *gf_driver_shim(void);

/* Whether a handle that is passed to dlsym is a handle of this library. Clears dlerror. */
bool gf_driver_shim_is_own_handle(void *handle);

/*
 * The loaded driver: where libcuda is mapped, and a table of its functions.
 *
 * The library never opens libcuda. When it first finds the libcuda that the program opened, it
 * builds the table from that object's symbol table. If there is a driver shim (driver.h), it
 * counts as the driver, and calls of the libcuda behind it are not hooked.
 *
 * The functions may be called on any thread, also under the loader's lock, in a constructor and in
 * a forked child. They keep errno. Only the functions that take the loader's lock may wait. If
 * several threads build a table at the same time, one thread publishes its table, and the others
 * discard theirs.
 */

struct gf_driver {
    struct gf_cuda functions;
    uintptr_t start, end; /* where libcuda, or the shim, is mapped */
    /* Where the libcuda behind a shim is mapped; 0 without a shim. */
    uintptr_t behind_start, behind_end;
    _Atomic bool pinned; /* true: the loader never unloads the driver */
};

/* Returns the driver; NULL until libcuda was found. The table is never freed. */
const struct gf_driver *gf_driver(void);

/*
 * Returns the driver if `address` is in libcuda or in the shim, otherwise NULL. May take the
 * loader's lock, to keep libcuda loaded, so call it only where the program takes that lock itself.
 * Clears dlerror.
 */
const struct gf_driver *gf_driver_by_address(const void *address);

/* Returns the driver's functions; NULL if the process has not loaded libcuda. */
const struct gf_cuda *gf_driver_functions(void);

/*
 * Marks libcuda as never unloaded. Called after cuInit succeeded, because the driver's threads then
 * keep it loaded.
 */
void gf_driver_trust(void);

/* Keeps libcuda loaded until the process ends. Takes the loader's lock. */
void gf_driver_pin(void);

/* Whether an address is in libcuda or in the shim. */
bool gf_driver_contains(const void *address);
