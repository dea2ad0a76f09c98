/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver shim is a library, preloaded after this one, that replaces the driver, such as Nsight
 * Compute's libcuda-injection.so. It defines cuInit and dlopen. When a program opens libcuda, the
 * shim returns a handle of the first object that defines dlopen, which it assumes to be the shim
 * itself. But the first one is this library. So the program gets a handle of this library, and
 * looks up functions there that only the shim has.
 */
#ifndef GF_PRELOAD_HOOK_ORIGINALS_DRIVER_SHIM_H
#define GF_PRELOAD_HOOK_ORIGINALS_DRIVER_SHIM_H

#include "base/loader/symbols.h"

/*
 * The shim's cuInit; NULL without a shim. Searches once, in the objects loaded at the start. Any
 * thread.
 */
const struct gf_symbol *gf_driver_shim(void);

/* Whether a handle that is passed to dlsym is this library's. Clears dlerror. */
bool gf_driver_shim_is_own_handle(void *handle);

#endif
