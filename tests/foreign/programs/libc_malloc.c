/* SPDX-License-Identifier: Apache-2.0 */
/* Ideas of glibc's malloc/tst-*.c. */
#include "libc_case.h"

#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* tst-malloc-too-large */
CASE(too_large)
{
    for (size_t i = 0; i < 70; i++) {
        const size_t size = hidden(SIZE_MAX - i * (i < 64 ? 1 : (size_t)1 << (i - 10)));
        void *untouched = &errno, *block = malloc(16);
        CHECK((errno = 0, !malloc(size)) && errno == ENOMEM);
        CHECK((errno = 0, !realloc(block, size)) && errno == ENOMEM);
        CHECK((errno = 0, !calloc(1, size)) && errno == ENOMEM);
        CHECK((errno = 0, !calloc(size, 16)) && errno == ENOMEM);
        CHECK((errno = 0, !calloc(16, size)) && errno == ENOMEM);
        CHECK((errno = 0, !reallocarray(block, size, 16)) && errno == ENOMEM);
        CHECK((errno = 0, !memalign(64, size)) && errno == ENOMEM);
        CHECK((errno = 0, !aligned_alloc(64, size)) && errno == ENOMEM);
        CHECK((errno = 0, !valloc(size)) && errno == ENOMEM);
        CHECK((errno = 0, !pvalloc(size)) && errno == ENOMEM);
        CHECK((errno = 0, posix_memalign(&untouched, 64, size) == ENOMEM) && untouched == &errno &&
              errno == ENOMEM);
        free(block);
    }
}

/* tst-realloc, tst-calloc: blocks keep their contents, and calloc's are zero. */
CASE(contents)
{
    unsigned seed = 1;

    for (int round = 0; round < 2000; round++) {
        const size_t old = (seed = seed * 1103515245 + 12345) >> 8 & 0x3ffff,
                     new = seed >> 4 & 0x3ffff;
        unsigned char *block = calloc(1, old);
        for (size_t i = 0; i < old; i += 61)
            CHECK(block[i] == 0);
        memset(block, round, old);
        block = realloc(block, new);
        CHECK(block || !new);
        for (size_t i = 0; block && i < old && i < new; i += 61)
            CHECK(block[i] == (unsigned char)round);
        free(block);
    }
    void *block = malloc(10);
    CHECK(realloc(block, hidden(0)) == NULL);
    CHECK((block = realloc(NULL, hidden(0))) != NULL);
    free(block);
}

/* tst-malloc-usable */
CASE(usable)
{
    CHECK(malloc_usable_size(NULL) == 0);
    for (size_t size = 0; size < 100000; size += 1 + size / 9) {
        char *block = malloc(size);
        const size_t usable = malloc_usable_size(block);
        CHECK(usable >= size);
        memset(block, 1, usable);
        block = realloc(block, usable);
        CHECK(malloc_usable_size(block) >= usable);
        free(block);
    }
}

/*
 * tst-malloc-thread-fail, tst-mallocalign: threads reach the memory limit, and continue afterwards.
 */
static void *meet_limit(void *arg)
{
    void *blocks[4096];
    unsigned count = 0;

    for (; count < 4096 && (blocks[count] = malloc(1 << 20)); count++)
        memset(blocks[count], 1, 4096);
    CHECK(count == 4096 || errno == ENOMEM);
    while (count)
        free(blocks[--count]);
    return arg;
}

CASE(limit)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)3 << 30, .rlim_max = RLIM_INFINITY};

    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    run_threads(4, meet_limit);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_AS, &limit);
    void *block = malloc(64 << 20);
    CHECK(block);
    free(block);
}

/* tst-free-errno */
CASE(free_errno)
{
    void *blocks[64];

    for (int round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 64; i++)
            CHECK((blocks[i] = malloc((size_t)1 << i % 25)));
        for (unsigned i = 0; i < 64; i++) {
            errno = 1789;
            free(blocks[i]);
            CHECK(errno == 1789);
        }
    }
}

/* tst-malloc-stats-cancellation, tst-malloc_info, tst-mallinfo2 */
CASE(info)
{
    void *block = malloc(64 << 20);
    const struct mallinfo2 before = mallinfo2();
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    CHECK(before.uordblks + before.hblkhd >= 64 << 20);
    CHECK(malloc_info(0, stream) == 0 && malloc_info(1, stream) == EINVAL);
    fclose(stream);
    CHECK(strncmp(text, "<malloc", 7) == 0 && strstr(text, "</malloc>"));
    free(text);
    free(block);
    CHECK(mallinfo2().uordblks + mallinfo2().hblkhd < 64 << 20);
    CHECK(mallopt(M_ARENA_MAX, 2) == 1 && mallopt(M_PERTURB, 0) == 1);
    malloc_trim(0);
}

/* tst-malloc-fork-deadlock, tst-mallocfork2: a signal handler forks while malloc runs. */
static volatile sig_atomic_t forked;

static void fork_in_handler(int number)
{
    const int error = errno;
    const pid_t child = fork();

    (void)number;
    if (child == 0)
        _exit(7);
    int status;
    if (child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7)
        forked++;
    errno = error;
}

CASE(fork_in_handler)
{
    const pid_t self = getpid();
    pid_t sender;

    signal(SIGUSR1, fork_in_handler);
    if ((sender = fork()) == 0) {
        for (int i = 0; i < 150; i++) {
            if (kill(self, SIGUSR1))
                break;
            usleep(2000);
        }
        _exit(0);
    }
    int status = -1;
    while (waitpid(sender, &status, WNOHANG) == 0) {
        void *volatile block = malloc((size_t)1 << (rand() % 21));
        free(block);
    }
    CHECK(forked > 0);
}

/* Many arenas at the same time. libc_forks.c allocates in children of vfork and clone. */
static void *churn(void *arg)
{
    void *blocks[256] = {0};
    unsigned seed = (unsigned)(uintptr_t)arg + 1;

    for (int i = 0; i < 40000; i++) {
        seed = seed * 1103515245 + 12345;
        void **at = &blocks[seed >> 16 & 255];
        free(*at);
        const size_t size = (size_t)1 << (seed >> 24) % 18;
        CHECK((*at = seed & 1 ? malloc(size) : memalign(64, size)));
        memset(*at, (int)i, size < 64 ? size : 64);
    }
    for (unsigned i = 0; i < 256; i++)
        free(blocks[i]);
    return NULL;
}

CASE(threads)
{
    run_threads(16, churn);
}

/* tst-trim1, tst-mallocstate: memory stays usable after a trim. */
CASE(trim)
{
    for (int round = 0; round < 20; round++) {
        char *block = malloc(8 << 20), *kept = malloc(100000);
        memset(block, 1, 8 << 20);
        memset(kept, round, 100000);
        free(block);
        CHECK(malloc_trim(0) >= 0);
        CHECK(kept[99999] == round);
        free(kept);
    }
}

/* tst-malloc-random: alignments and overlaps. */
CASE(aligned)
{
    for (size_t alignment = 1; alignment <= (size_t)1 << 24; alignment <<= 1)
        for (size_t size = 1; size < 1 << 20; size = size * 5 + 3) {
            void *one = memalign(alignment, size), *two = NULL;
            CHECK(one && (uintptr_t)one % alignment == 0);
            CHECK(posix_memalign(&two, alignment, size) ==
                  (alignment < sizeof(void *) ? EINVAL : 0));
            CHECK((uintptr_t)two % alignment == 0 &&
                  (!two || (uintptr_t)two - (uintptr_t)one >= size));
            free(one);
            free(two);
        }
}
