/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload beside the library under test. It calls cuInit and creates a context in a program that
 * does not use GPUs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void init(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : NULL;
    int (*retain)(void **, int) =
        cuda ? (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain") : NULL;
    if (!init || !retain || init(0) || retain(&context, 0)) {
        fprintf(stderr, "cuinit: no driver\n");
        exit(1);
    }
}
