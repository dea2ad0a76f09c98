/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route table: which address is which function of the driver, and which hook stands for it.
 * Built once, at the first sighting of libcuda, from the symbol table of that very object; libcuda
 * is never opened where the program has not. Where another preload has its place (stand_in.h) that is
 * the driver, and libcuda's own functions are left alone. Pointer identity decides, never a name: every table of
 * names and versions that others kept has at some time handed out a function of another ABI.
 *
 * But for the two places that say so nothing here waits: threads that build at once all build, one publishes, the others discard.
 * Any thread, under the loader's lock, in a constructor, in a forked child. errno is kept.
 */
#ifndef GF_HOOK_ROUTES_H
#define GF_HOOK_ROUTES_H

#include "base/base.h"
#include "hook/cuda.h"

struct gf_routes;

/* The table; NULL while libcuda has not been seen. */
const struct gf_routes *gf_routes(void);
/*
 * The table, built if `address` lies in a libcuda, or a stand-in is there; else NULL. For where the program
 * takes the loader's lock itself: it may, to keep that libcuda loaded; a pending dlerror is lost.
 */
const struct gf_routes *gf_routes_by_address(const void *address);
/* The driver's functions, found if the process has loaded libcuda by any way; else NULL. */
const struct gf_cuda *gf_routes_cuda(void);
/* After the driver's success: its threads run in it now, so it stays. One store. */
void gf_routes_trust(void);
/* Keeps it loaded by the loader's own means, with the lock for it. */
void gf_routes_pin(void);

/* The hook for the driver's function at `address`; NULL when there is none. routes may be NULL. */
void *gf_routes_substitute(const struct gf_routes *routes, const void *address);

/* Whether an address is one of the hooks. */
bool gf_routes_is_hook(const void *address);

/* Whether an address is libcuda's own code. */
bool gf_routes_in_driver(const void *address);

#endif
