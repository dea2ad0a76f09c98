/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload for the programs that FOREIGN_FEEDS names. It creates a CUDA context of the simulated
 * driver, makes some copies that are staged, and creates the file FOREIGN_MADE. In LD_PRELOAD it
 * follows the library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define COPIES 8

static int is_named(const char *names, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = names; at && (at = strstr(at, name)); at += length)
        if ((at == names || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return 1;
    return 0;
}

__attribute__((constructor)) static void feed(void)
{
    void *context, *driver;
    unsigned long long device;
    char *block;

    if (!is_named(getenv("FOREIGN_FEEDS"), program_invocation_short_name))
        return;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
#define DRIVER(name, ...) ((int (*)(__VA_ARGS__))dlsym(driver, name))
    if (!driver || DRIVER("cuInit", unsigned)(0) ||
        DRIVER("cuDevicePrimaryCtxRetain", void **, int)(&context, 0) ||
        DRIVER("cuCtxSetCurrent", void *)(context) ||
        DRIVER("cuMemAlloc_v2", unsigned long long *, size_t)(&device, 4 * MIB))
        abort();
    block = malloc(4 * MIB);
    for (int i = 0; block && i < COPIES; i++) {
        memset(block, i, 4 * MIB);
        if (DRIVER("cuMemcpyHtoD_v2", unsigned long long, const void *, size_t)(device, block,
                                                                                4 * MIB))
            abort();
    }
    free(block);
    close(open(getenv("FOREIGN_MADE"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    errno = 0;
}
