/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some libraries that load models copy and read each tensor by one call of libc, on one thread.
 * Helper threads share these calls. For this, only the pointer through which such a library calls
 * libc is replaced (imports.c). libgpufeed exports none of these functions.
 */
#pragma once

#include "base/base.h"

/*
 * Called when the program allocates pinned memory, which such a library does before it copies.
 * Makes the thread `gpufeed` search for newly loaded libraries, at most ten times a second. May be
 * called on any thread; never waits.
 */
void gf_imports_request(size_t bytes);

/*
 * Searches for newly loaded libraries of this kind, and replaces their pointers: after a request,
 * and else at most once a second. Takes the loader's lock. Called on the thread `gpufeed`.
 */
void gf_imports_prepare(void);
