/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file whose last blocks the device cannot read: badblocks WHAT FILE SAFETENSORS PYTHON. The
 * program prints the same with and without the library.
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TENSOR (8 * MIB)

static struct kit_readers library;
static const char *path;
static size_t size;
static unsigned char *into, *mapped;

static void in_order(void)
{
    const int fd = open(path, O_RDONLY);
    for (int i = 0; i < 3; i++) {
        errno = 77;
        const ssize_t got = library.read(fd, into, size);
        printf("read: %zd, errno %d, at %ld, sum %u\n", got, errno, (long)lseek(fd, 0, SEEK_CUR),
               kit_sum(into, got > 0 ? (size_t)got : 0));
    }
    close(fd);
}

static void at_offsets(void)
{
    const int fd = open(path, O_RDONLY);
    off_t at = 0;
    for (int i = 0; i < 3; i++) {
        errno = 77;
        const ssize_t got = library.pread(fd, into, size - (size_t)at, at);
        printf("at %ld: %zd, errno %d, sum %u\n", (long)at, got, errno,
               kit_sum(into, got > 0 ? (size_t)got : 0));
        at += got > 0 ? got : 0;
    }
    close(fd);
}

static const char *place(uintptr_t at)
{
    static char text[64];
    snprintf(text, sizeof text, "%zu of the file", (size_t)(at - (uintptr_t)mapped) / 4096 * 4096);
    return text;
}

/* Copies from the mapped file until the first block that cannot be read raises SIGBUS. */
static void copy(void)
{
    const CUdeviceptr device = kit_device(TENSOR);
    const int fd = open(path, O_RDONLY);
    mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    WANT(mapped != MAP_FAILED);
    kit_catch_signals(place);
    for (size_t at = 0; at + TENSOR <= size; at += TENSOR) {
        MUST(cu.cuMemcpyHtoD_v2(device, mapped + at, TENSOR));
        MUST(cu.cuMemcpyDtoH_v2(into, device, TENSOR));
        printf("copy %zu: sum %u\n", at, kit_sum(into, TENSOR));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"in-order", in_order}, {"offsets", at_offsets}, {"copy", copy}};
    struct stat file;

    if (argc < 5)
        return 64;
    path = argv[2];
    WANT(stat(path, &file) == 0);
    size = (size_t)file.st_size;
    kit_start();
    into = kit_pageable(size);
    library = kit_await_readers(argv[3], argv[4]);
    const int fd = open(path, O_RDONLY);
    WANT(fd >= 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 && close(fd) == 0);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            tests[i].run();
    puts("done");
    return 0;
}
