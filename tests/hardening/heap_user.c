/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses many of the functions that the library hooks, and prints the same in each run. With an
 * argument, it also creates a CUDA context.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void use_heap(unsigned rounds)
{
    enum { BLOCKS = 64 };
    char *block[BLOCKS] = {0};
    unsigned seed = 1;

    for (unsigned i = 0; i < rounds; i++) {
        char **at = &block[i % BLOCKS];
        const size_t size = (size_t)1 << (seed = seed * 1103515245 + 12345) / 65536 % 22;
        free(*at);
        *at = i % 3 == 0 ? calloc(1, size) : i % 3 == 1 ? malloc(size) : realloc(NULL, size);
        if (!*at)
            abort();
        (*at)[0] = (*at)[size - 1] = 1;
        if (i % 7 == 0 && !(*at = realloc(*at, 2 * size)))
            abort();
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(block[i]);
}

static void *run(void *arg)
{
    use_heap(600);
    return arg;
}

static void use_driver(void)
{
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*const init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    int (*const retain)(void **, int) =
        driver ? (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    int (*const set)(void *) = driver ? (int (*)(void *))dlsym(driver, "cuCtxSetCurrent") : NULL;
    void *context;

    if (!init || init(0) || retain(&context, 0) || set(context))
        puts("no driver");
}

int main(int argc, char **argv)
{
    pthread_t thread[4];
    cpu_set_t mask;
    int status = -1;
    void *page;

    alarm(60);
    use_heap(500);
    if (argc > 1)
        use_driver();
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, run, NULL))
            return 1;
    use_heap(600);
    const pid_t child = fork();
    if (child == 0) {
        use_heap(500);
        _exit(7);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    sched_getaffinity(0, sizeof(mask), &mask);
    sched_setaffinity(0, sizeof(mask), &mask);
    page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 1 << 20);
    malloc_trim(0);
    printf("child %d, %s, %s\n", WEXITSTATUS(status),
           dlsym(RTLD_DEFAULT, "getpid") ? "found" : "none",
           dlopen("libm.so.6", RTLD_NOW) ? "opened" : "not opened");
    (void)argv;
    return 0;
}
