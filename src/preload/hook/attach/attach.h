/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: loaded once, after the first successful cuInit of the process. */
#ifndef GF_PRELOAD_HOOK_ATTACH_ATTACH_H
#define GF_PRELOAD_HOOK_ATTACH_ATTACH_H

#include "abi/engine_api.h"
#include "base/base.h"

/*
 * Called after cuInit succeeded. The caller may hold the loader's lock, or a thread that holds it
 * may be waiting for the caller. The first thread that calls this starts the library's thread,
 * which loads the engine. That caller waits for the load while the loader's lock is free, and for a
 * bounded time; other threads return at once. A process forked afterwards never loads an engine,
 * because the driver does not work in a forked child. Keeps errno and dlerror. If the load fails,
 * every call passes through.
 */
void gf_attach(void);

/* The engine of this process, read by one load. NULL before it is loaded, and in a forked child. */
const struct gf_engine *gf_engine(void);

/*
 * For hooks: returns the engine and marks the calling thread, so that the engine's own CUDA calls
 * pass through. Returns NULL inside such a call, and on threads of this library. Each call that
 * returns an engine is paired with gf_engine_leave.
 */
const struct gf_engine *gf_engine_enter(void);
void gf_engine_leave(void);

#endif
