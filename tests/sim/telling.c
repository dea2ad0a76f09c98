/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that hands every call on to the simulated one, found as sim.so, and appends each error that
 * comes back to the file TELL_ERRORS: what a tool would show that watches the driver. CUDA_ERROR_NOT_READY
 * is an answer, no error. With STANDS_IN it is a preload that has the driver's place, as Nsight
 * Compute's: who opens libcuda is given the object that holds its dlopen.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef STANDS_IN
static void *open_original(const char *file, int mode)
{
    static __typeof__(dlopen) *original;
    if (!original)
        original = (__typeof__(dlopen) *)dlsym(RTLD_NEXT, "dlopen");
    return original(file, mode);
}

void *dlopen(const char *file, int mode)
{
    Dl_info own;
    const bool is_driver = file && strstr(file, "libcuda.so") && dladdr((void *)dlopen, &own);
    return open_original(is_driver ? own.dli_fname : file, mode);
}
#endif

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

/* Integers and pointers only; what a caller did not pass is whatever its stack holds. */
typedef long entry_fn(long, long, long, long, long, long, long, long, long, long, long, long);

static entry_fn *real[COUNT];

static __attribute__((constructor)) void find(void)
{
    void *sim = dlopen("sim.so", RTLD_NOW);
    for (size_t i = 0; i < COUNT; i++)
        if (!sim || !(real[i] = (entry_fn *)dlsym(sim, names[i])))
            abort();
}

static void tell(int number, int result)
{
    char line[128];
    const char *path = getenv("TELL_ERRORS");
    const int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    const int length = snprintf(line, sizeof(line), "%s %d\n", names[number], result);
    if (write(fd, line, (size_t)length) != length)
        abort();
    close(fd);
}

static void *own(int number);

/* The simulated driver's address becomes the one here. */
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
        const int result = (int)real[number_##export](a, b, c, d, e, f, g, h, i, j, k, l);         \
        if (result && result != CUDA_ERROR_NOT_READY)                                              \
            tell(number_##export, result);                                                         \
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
