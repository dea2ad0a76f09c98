/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that the door stands in front of. Another preload behind ours is one too: each is
 * the next definition in search order, as RTLD_NEXT gives it.
 */
#ifndef GF_HOOK_ORIGINALS_H
#define GF_HOOK_ORIGINALS_H

#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct gf_originals {
    __typeof__(dlsym) *dlsym;
    __typeof__(dlopen) *dlopen;
    __typeof__(pthread_create) *pthread_create;
    int (*__register_atfork)(void (*)(void), void (*)(void), void (*)(void), void *);
    __typeof__(sched_setaffinity) *sched_setaffinity;
    __typeof__(pthread_setaffinity_np) *pthread_setaffinity_np;
    __typeof__(munmap) *munmap;
    __typeof__(_exit) *_exit;
    __typeof__(_Exit) *_Exit;
};

/*
 * Resolved at the first call, all at once, by reading symbol tables: no allocation, no lock that
 * is held while constructors run, errno and dlerror untouched. Any thread, before main, inside
 * malloc, in a forked child; two threads at once find the same.
 */
const struct gf_originals *gf_originals(void);

#endif
