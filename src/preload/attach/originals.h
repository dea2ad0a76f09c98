/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "base/symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <threads.h>

/*
 * The originals of the libc functions that this library hooks: the next definitions in search
 * order, as for RTLD_NEXT. If a library that is preloaded after this one wraps the function, the
 * original is its wrapper.
 */

/* libc's static pthread_atfork calls this function. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *object);

/* libc's header marks pthread_attr_setstackaddr as deprecated, but programs still call it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* The hooks. entry_<arch>.S exports them under libc's names. */
#define GF_LIBC(symbol) __typeof__(symbol) gf_on_##symbol;
#include "abi/hooks.def"

struct gf_originals {
#define GF_LIBC(symbol) __typeof__(symbol) *symbol;
#include "abi/hooks.def"
};
#pragma GCC diagnostic pop

/*
 * The first call resolves all originals by reading symbol tables. The call does not allocate, and
 * keeps errno and dlerror. May be called on any thread, also before main, inside malloc and in a
 * forked child.
 */
const struct gf_originals *gf_originals(void);

/* Finds one original by name; NULL if not found. */
void *gf_originals_find(const char *name);

/*
 * Handles two copies of this library in one process, for example if /etc/ld.so.preload names one
 * file, and `gpufeed run` preloads another. The loader distinguishes objects by file, so it loads
 * both. The first copy in search order gets the program's calls and serves them. The other copy
 * passes every call through, as with GPUFEED=off. The functions only read symbol tables. They may
 * be called on any thread, also before main and under the loader's lock.
 */

/*
 * Whether this copy passes every call through, because of GPUFEED=off or because another copy
 * precedes it.
 */
bool gf_duplicate_load_passes(void);

/* Whether another copy follows this one in search order. Returns the files of both copies. */
bool gf_duplicate_load_find(struct gf_symbol *ret_this, struct gf_symbol *ret_second);
