/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: brought in once, after the first successful cuInit of the process. */
#ifndef GF_HOOK_ATTACH_H
#define GF_HOOK_ATTACH_H

#include "base/base.h"
#include "hook/engine_api.h"

/*
 * After a success of cuInit, perhaps under the loader's lock, or awaited by who holds it. The first
 * thread of the process to come here starts a thread of ours, which loads the engine; it waits for
 * that as long as nobody holds the loader's lock, and never without a limit. The others go on. A
 * process forked after that never loads one: the driver's state is not usable there. Keeps errno
 * and dlerror; a failure leaves the door passing everything through.
 */
void gf_attach(void);

/* The engine of this process; NULL before it is there, and in a forked child. One load then. */
const struct gf_engine *gf_engine(void);

/*
 * For hooks: the engine, with the calling thread marked so that CUDA calls which the engine makes
 * pass through; NULL also inside such a call, and on threads of ours. What was entered is left.
 */
const struct gf_engine *gf_engine_enter(void);
void gf_engine_leave(void);

#endif
