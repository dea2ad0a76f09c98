/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates and frees by each function of the malloc family and by glibc's own names of them, in
 * two threads (with an argument: in one) and a child. Prints whether the tracer saw the calls, if
 * there is a tracer.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
void __libc_free(void *block);
extern void __libc_cfree(void *block) __attribute__((weak));
extern unsigned long traced(void) __attribute__((weak));

static void own_names(size_t size)
{
    void *block[] = {__libc_malloc(size), __libc_calloc(1, size), __libc_memalign(64, size),
                     __libc_valloc(size), __libc_pvalloc(size),   __libc_realloc(NULL, size)};
    for (size_t i = 0; i < sizeof(block) / sizeof(*block); i++) {
        memset(block[i], 1, size);
        block[i] = __libc_realloc(block[i], 2 * size);
        if (((char *)block[i])[size - 1] != 1)
            exit(3);
        (__libc_cfree && i % 2 ? __libc_cfree : __libc_free)(block[i]);
    }
    __libc_free(NULL);
}

static void names(size_t size)
{
    char *line = NULL;
    void *block[] = {malloc(size),
                     calloc(1, size),
                     realloc(NULL, size),
                     aligned_alloc(64, (size + 63) & -64ul),
                     memalign(64, size),
                     valloc(size),
                     pvalloc(size),
                     reallocarray(NULL, 1, size),
                     NULL,
                     NULL};
    const size_t count = sizeof(block) / sizeof(*block);
    if (posix_memalign(&block[8], 256, size) || asprintf(&line, "%0*d", (int)size, 7) != (int)size)
        exit(4);
    block[9] = line;
    for (size_t i = 0; i < count; i++) {
        memset(block[i], 1, size);
        if (malloc_usable_size(block[i]) < size || !(block[i] = realloc(block[i], 3 * size)) ||
            ((char *)block[i])[size - 1] != 1)
            exit(5);
        free(block[i]);
    }
}

static void *work(void *arg)
{
    for (size_t size = 8; size < 4 << 20; size *= 5) {
        own_names(size);
        names(size);
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int status = 1;
    if (argc > 1)
        work(argv);
    else if (pthread_create(&thread, NULL, work, NULL) || !work(&thread) ||
             pthread_join(thread, NULL))
        return 1;
    if (fork() == 0) {
        work(NULL);
        _exit(0);
    }
    if (wait(&status) < 0 || status)
        return 2;
    if (traced)
        puts(traced() ? "traced" : "not traced");
    puts("done");
    return 0;
}
