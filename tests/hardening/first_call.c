/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose first call into the library is the named one, so that no earlier call has
 * initialized the library.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *run(void *arg)
{
    return arg;
}

int main(int argc, char **argv)
{
    const char *const call = argc > 1 ? argv[1] : "";
    pthread_t thread;
    cpu_set_t mask;

    sched_getaffinity(0, sizeof(mask), &mask);
    if (!strcmp(call, "munmap"))
        return munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    if (!strcmp(call, "sched_setaffinity"))
        return sched_setaffinity(0, sizeof(mask), &mask);
    if (!strcmp(call, "pthread_setaffinity_np"))
        return pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask);
    if (!strcmp(call, "pthread_create"))
        return pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL);
    if (!strcmp(call, "dlsym"))
        return dlsym(RTLD_DEFAULT, "getpid") == NULL;
    if (!strcmp(call, "dlopen"))
        return dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD) == NULL;
    if (!strcmp(call, "pthread_atfork"))
        return pthread_atfork(NULL, NULL, NULL);
    if (!strcmp(call, "cuInit"))
        return cuInit(0);
    if (!strcmp(call, "cuCtxSetCurrent"))
        return cuCtxSetCurrent(NULL) == CUDA_SUCCESS;
    _exit(0);
}
