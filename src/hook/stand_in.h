/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload behind the door that has the driver's place: it defines cuInit and dlopen, and answers a
 * program that opens libcuda with itself (Nsight Compute's libcuda-injection.so). It finds itself as
 * the object that holds dlopen, which with a door in front is the door: so the program is given a
 * handle of the door, and looks up there what only the stand-in has.
 */
#ifndef GF_HOOK_STAND_IN_H
#define GF_HOOK_STAND_IN_H

#include "base/symbols.h"

/* NULL: there is none. Looked for once, among the objects that were there at start. Any thread. */
const struct gf_symbol *gf_stand_in(void);

/* Whether a handle that the original dlsym takes is the door's own. Any pending dlerror is lost. */
bool gf_stand_in_is_door(void *handle);

#endif
