/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver in front of the simulated driver, which it opens as sim.so. It passes every call on. The
 * file that includes this header defines functions that run before and after each call.
 */
#ifndef SIM_FRONT_H
#define SIM_FRONT_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define COUNT (sizeof(names) / sizeof(*names))

static const char *const names[] = {
#define SIM_ENTRY(export, name, version, flavour) #export,
#include "entries.def"
#undef SIM_ENTRY
};

enum {
#define SIM_ENTRY(export, name, version, flavour) number_##export,
#include "entries.def"
#undef SIM_ENTRY
};

/* The including file defines these. They run around each call, on the calling thread. */
static void front_before(int number);
static void front_after(int number, int result);

/*
 * All parameters are integers or pointers. A parameter that the caller did not pass has an
 * undefined value.
 */
typedef long entry_fn(long, long, long, long, long, long, long, long, long, long, long, long);

static entry_fn *real[COUNT];

static __attribute__((constructor)) void find(void)
{
    void *sim = dlopen("sim.so", RTLD_NOW);
    for (size_t i = 0; i < COUNT; i++)
        if (!sim || !(real[i] = (entry_fn *)dlsym(sim, names[i])))
            abort();
}

static void *own(int number);

/* Replaces the address of a simulated driver's function by that of the function here. */
static void exchange(void **pfn)
{
    for (size_t i = 0; pfn && i < COUNT; i++)
        if (*pfn && *pfn == (void *)real[i]) {
            *pfn = own((int)i);
            return;
        }
}

#define SIM_ENTRY(export, name, version, flavour)                                                  \
    long told_##export(long a, long b, long c, long d, long e, long f, long g, long h, long i,     \
                       long j, long k, long l) __asm__(#export);                                   \
    long told_##export(long a, long b, long c, long d, long e, long f, long g, long h, long i,     \
                       long j, long k, long l)                                                     \
    {                                                                                              \
        front_before(number_##export);                                                             \
        const int result = (int)real[number_##export](a, b, c, d, e, f, g, h, i, j, k, l);         \
        front_after(number_##export, result);                                                      \
        if (!result && strncmp(#export, "cuGetProcAddress", 16) == 0)                              \
            exchange((void **)b);                                                                  \
        return result;                                                                             \
    }
#include "entries.def"
#undef SIM_ENTRY

static void *const owns[] = {
#define SIM_ENTRY(export, name, version, flavour) (void *)told_##export,
#include "entries.def"
#undef SIM_ENTRY
};

static void *own(int number)
{
    return owns[number];
}

#endif
