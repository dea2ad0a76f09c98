/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * Makes symbol lookups in libc find the functions that serve malloc. Called before each dlopen, and
 * before each lookup of such a name with RTLD_NEXT, so that processes without such calls pay
 * nothing. Has no effect if another allocator serves malloc. Returns false if the symbols cannot be
 * changed; then do not open a library with RTLD_DEEPBIND. Idempotent. Keeps errno. May be called on
 * any thread.
 */
bool gf_libc_names_prepare(void);

/* Whether `name` is one of these functions. */
bool gf_libc_names_contain(const char *name);
