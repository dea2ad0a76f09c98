/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver shim is a library, preloaded after this one, that replaces the driver, such as Nsight
 * Compute's libcuda-injection.so. A shim defines cuInit and dlopen. When a program opens libcuda,
 * the shim returns a handle of the first object that defines dlopen, which it assumes to be the
 * shim itself. But the first object that defines dlopen is this library. So the program gets a
 * handle of this library, and uses it to look up functions that only the shim has.
 */
#ifndef GF_PRELOAD_HOOK_ORIGINALS_DRIVER_SHIM_H
#define GF_PRELOAD_HOOK_ORIGINALS_DRIVER_SHIM_H

#include "base/symbols.h"

/*
 * Returns the shim's cuInit; NULL without a shim. Searches once, in the objects that were loaded
 * when the process started. May be called on any thread.
 */
const struct gf_symbol *gf_driver_shim(void);

/* Whether a handle that is passed to dlsym is a handle of this library. Clears dlerror. */
bool gf_driver_shim_is_own_handle(void *handle);

#endif
