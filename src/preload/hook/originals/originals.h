/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The originals of the libc functions that this library hooks: the next definition in search order,
 * as for RTLD_NEXT. If another library preloaded after this one wraps the function, its wrapper is
 * called.
 */
#ifndef GF_PRELOAD_HOOK_ORIGINALS_ORIGINALS_H
#define GF_PRELOAD_HOOK_ORIGINALS_ORIGINALS_H

#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The static pthread_atfork of libc calls it. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *object);

/* The hooks. entry.h exports them under the names of libc. */
#define GF_LIBC(symbol) __typeof__(symbol) gf_on_##symbol;
#include "abi/hooks.def"

struct gf_originals {
#define GF_LIBC(symbol) __typeof__(symbol) *symbol;
#include "abi/hooks.def"
};

/*
 * Resolves all originals at the first call, by reading symbol tables. It does not allocate, holds
 * no lock while constructors run, and leaves errno and dlerror untouched. Any thread, before main,
 * inside malloc, in a forked child. Threads that resolve at the same time store the same values.
 */
const struct gf_originals *gf_originals(void);

/* Finds one original by name in the same way; NULL if not found. */
void *gf_originals_find(const char *name);

#endif
