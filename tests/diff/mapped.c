/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from mapped files that are not in the page cache: mapped WHAT FOLDER. The files are made in
 * the folder, which is on a disk. The program prints the same with and without the library.
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define SIZE (64 * MIB)
#define TENSOR (8 * MIB)
#define OTHER (32 * MIB)

static const char *folder;
static CUdeviceptr device;
static unsigned char *back;

static int make_file(const char *name, size_t size, unsigned seed)
{
    char path[4096];
    unsigned char *bytes = malloc(TENSOR);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    WANT(fd >= 0 && bytes);
    for (size_t at = 0; at < size; at += TENSOR) {
        const size_t part = size - at < TENSOR ? size - at : TENSOR;
        kit_fill(bytes, part, seed + (unsigned)(at / TENSOR));
        WANT(pwrite(fd, bytes, part, (off_t)at) == (ssize_t)part);
    }
    free(bytes);
    WANT(fsync(fd) == 0);
    return fd;
}

static void drop_cache(int fd)
{
    WANT(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
}

static unsigned char *map_file(int fd, size_t size, int protection, int flags)
{
    unsigned char *at = mmap(NULL, size, protection, flags, fd, 0);
    WANT(at != MAP_FAILED);
    return at;
}

/* Returns the number of pages of a range that are in the page cache. */
static size_t cached_pages(unsigned char *at, size_t size)
{
    unsigned char *present = malloc(size / PAGE);
    size_t sum = 0;
    WANT(present && mincore(at, size, present) == 0);
    for (size_t i = 0; i < size / PAGE; i++)
        sum += present[i] & 1;
    free(present);
    return sum;
}

static unsigned hash(const unsigned char *at, size_t size)
{
    unsigned sum = 2166136261U;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ at[i]) * 16777619U;
    return sum;
}

static void copy(const unsigned char *from, size_t size, const char *what)
{
    MUST(cu.cuMemcpyHtoD_v2(device, from, size));
    MUST(cu.cuMemcpyDtoH_v2(back, device, size));
    printf("%s %08x\n", what, hash(back, size));
    fflush(stdout);
}

static void copy_all(const unsigned char *at, size_t from, size_t to, const char *what)
{
    for (; from < to; from += TENSOR)
        copy(at + from, to - from < TENSOR ? to - from : TENSOR, what);
}

/* Copies from a first file, so that the library knows the file system for later copies. */
static void warm_up(void)
{
    unsigned char *host = kit_pageable(TENSOR);
    device = kit_device(SIZE);
    back = kit_pageable(SIZE);
    for (int i = 0; i < 4; i++)
        MUST(cu.cuMemcpyHtoD_v2(device, host, TENSOR));
    kit_await_ring();
    int fd = make_file("known", 2 * TENSOR, 9);
    unsigned char *at = map_file(fd, 2 * TENSOR, PROT_READ, MAP_SHARED);
    for (int i = 0; i < 2; i++) {
        MUST(cu.cuMemcpyHtoD_v2(device, at, 2 * TENSOR));
        kit_sleep_us(100000);
    }
    close(fd);
}

static void shared(void)
{
    int fd = make_file("model", SIZE, 1);
    drop_cache(fd);
    copy_all(map_file(fd, SIZE, PROT_READ, MAP_SHARED), 0, SIZE, "shared");
    drop_cache(fd);
    unsigned char *at = map_file(fd, SIZE, PROT_READ, MAP_PRIVATE);
    copy(at, SIZE - 1, "whole");
    for (size_t k = SIZE; k; k -= TENSOR)
        copy(at + k - TENSOR, TENSOR, "backwards");
}

/* Copies a private mapping, in which the program has written some pages. */
static void written(void)
{
    int fd = make_file("model", SIZE, 1);
    unsigned char *at = map_file(fd, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (size_t k = 16 * PAGE; k < SIZE; k += 64 * PAGE)
        memset(at + k, 0x77, PAGE);
    drop_cache(fd);
    copy_all(at, 0, SIZE, "written");
}

/*
 * Overwrites the file behind the copies so far. Pages of a private mapping that the program has not
 * written show the new bytes.
 */
static void overwritten(void)
{
    unsigned char *fresh = kit_pageable(TENSOR);
    int fd = make_file("model", SIZE, 1);
    unsigned char *at = map_file(fd, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    drop_cache(fd);
    kit_fill(fresh, TENSOR, 99);
    for (size_t k = 0; k < SIZE; k += TENSOR) {
        copy(at + k, TENSOR, "overwritten");
        if (k + 3 * TENSOR <= SIZE && (k / TENSOR) % 2 == 0)
            WANT(pwrite(fd, fresh, TENSOR, (off_t)(k + 2 * TENSOR)) == (ssize_t)TENSOR);
    }
}

/* Truncates the file while its first half is copied. The copy of the second half raises SIGBUS. */
static void truncated(void)
{
    int fd = make_file("model", SIZE, 1);
    unsigned char *at = map_file(fd, SIZE, PROT_READ, MAP_SHARED);
    drop_cache(fd);
    copy_all(at, 0, SIZE / 4, "before");
    WANT(ftruncate(fd, (off_t)(SIZE / 2 + 100)) == 0);
    drop_cache(fd);
    copy_all(at, SIZE / 4, SIZE / 2, "after");
    copy(at + SIZE / 2, PAGE, "the last page");
    copy_all(at, SIZE / 2, SIZE, "behind the end");
}

/*
 * Copies from a mapping that is longer than its file. The last page of a private mapping may hold
 * bytes of the program behind the end of the file.
 */
static void tail(void)
{
    const size_t end = SIZE / 2 + 100;
    int fd = make_file("model", end, 1);
    unsigned char *own = map_file(fd, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memset(own + end, 0x55, PAGE - 100);
    copy(own + SIZE / 2 - TENSOR, TENSOR + PAGE, "the written tail");
    unsigned char *at = map_file(fd, SIZE, PROT_READ, MAP_SHARED);
    drop_cache(fd);
    copy_all(at, 0, SIZE / 2, "tail");
    copy(at + SIZE / 2 - TENSOR, TENSOR + PAGE, "the last page");
    copy(at + SIZE / 2, TENSOR, "behind the end");
}

/*
 * Holds a lock of the process on the file. The process would lose the lock if the library closed a
 * descriptor of that file.
 */
static void locked(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int status, fd = make_file("model", SIZE, 1);
    WANT(fcntl(fd, F_SETLK, &lock) == 0);
    drop_cache(fd);
    copy_all(map_file(fd, SIZE, PROT_READ, MAP_SHARED), 0, SIZE, "locked");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 0 : 1);
    WANT(waitpid(child, &status, 0) == child);
    printf("the lock is %s\n", status == 0 ? "held" : "lost");
}

/*
 * After the copy, maps another file at the same addresses. The library must not read pages of that
 * file.
 */
static void unmapped(void)
{
    int fd = make_file("model", SIZE, 1), next = make_file("next", SIZE, 2);
    for (int i = 0; i < 4; i++) {
        drop_cache(fd);
        drop_cache(next);
        unsigned char *at = map_file(fd, SIZE, PROT_READ, MAP_SHARED);
        copy_all(at, 0, OTHER, "unmapped");
        WANT(munmap(at, SIZE) == 0);
        unsigned char *again = mmap(at, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, next, 0);
        WANT(again == at);
        kit_sleep_us(300000);
        printf("%s pages of the next file were read\n", cached_pages(at, SIZE) ? "some" : "no");
        WANT(munmap(at, SIZE) == 0);
    }
}

/* The library reads only a little more of the file than the program copies. */
static void few(void)
{
    int fd = make_file("large", 4 * SIZE, 1);
    drop_cache(fd);
    unsigned char *at = map_file(fd, 4 * SIZE, PROT_READ, MAP_SHARED);
    copy(at, TENSOR, "few");
    copy(at + TENSOR, TENSOR, "few");
    kit_sleep_us(300000);
    printf("%s pages far behind were read\n",
           cached_pages(at + 64 * MIB, 4 * SIZE - 64 * MIB) ? "some" : "no");
}

/*
 * Copies in random order. The library then reads only the copied bytes. MADV_RANDOM turns the
 * kernel's own readahead off.
 */
static void random_order(void)
{
    static const size_t order[] = {7, 2, 9, 4, 0}, size = 12 * TENSOR;
    int fd = make_file("model", size, 1);
    drop_cache(fd);
    unsigned char *at = map_file(fd, size, PROT_READ, MAP_SHARED);
    WANT(madvise(at, size, MADV_RANDOM) == 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        copy(at + order[i] * TENSOR, TENSOR, "random");
    kit_sleep_us(300000);
    printf("%s pages between the copies were read\n",
           cached_pages(at + 5 * TENSOR, 2 * TENSOR) + cached_pages(at + 10 * TENSOR, 2 * TENSOR) +
                   cached_pages(at + 3 * TENSOR, TENSOR) + cached_pages(at + TENSOR, TENSOR)
               ? "some"
               : "no");
}

/*
 * Copies from an existing file. The disk returns an error for some of its blocks, so the copy of
 * that part raises SIGBUS.
 */
static void damaged(void)
{
    char path[4096];
    struct stat file;
    snprintf(path, sizeof path, "%s/damaged", folder);
    int fd = open(path, O_RDONLY);
    WANT(fd >= 0 && fstat(fd, &file) == 0);
    drop_cache(fd);
    copy_all(map_file(fd, (size_t)file.st_size, PROT_READ, MAP_SHARED), 0, (size_t)file.st_size,
             "damaged");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"shared", shared},       {"written", written}, {"overwritten", overwritten},
                 {"truncated", truncated}, {"tail", tail},       {"locked", locked},
                 {"unmapped", unmapped},   {"few", few},         {"random", random_order},
                 {"damaged", damaged}};

    if (argc < 3)
        return 64;
    folder = argv[2];
    if (getenv("MAPPED_REFUSE"))
        kit_refuse(getenv("MAPPED_REFUSE"));
    kit_start();
    warm_up();
    if (argc > 3)
        kit_catch_signals(NULL);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            tests[i].run();
    puts("done");
    return 0;
}
