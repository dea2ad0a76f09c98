/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for programs that read files by libraries which are named like safetensors' and others. */
#include "kit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *find(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    WANT(handle);
    void *function = dlsym(handle, name);
    WANT(function);
    return function;
}

/* The loader resolves a pointer of this library at the first call. */
static ssize_t (*find_read(const char *python))(int, void *, size_t)
{
    ssize_t (*ret)(int, void *, size_t);
    char byte;

    *(void **)&ret = find(python, "file_read");
    const int fd = open("/proc/self/exe", O_RDONLY);
    WANT(ret(fd, &byte, 1) == 1 && close(fd) == 0);
    return ret;
}

struct kit_readers kit_await_readers(const char *safetensors, const char *python)
{
    /* in this order, so that a search that finds the second pointer finds the first one, too */
    struct kit_readers ret = {.read = find_read(python)};
    const void *const native = dlsym(RTLD_DEFAULT, "pread64");
    const void *(*pointer)(void);

    *(void **)&ret.pread = find(safetensors, "tensor_read");
    *(void **)&pointer = find(safetensors, "tensor_pread");
    kit_await_ring();
    if (!getenv("LD_PRELOAD"))
        return ret;
    kit_helpers(3);
    /* KIT_TURNS is for tests in which no pointer may be replaced */
    const int turns = getenv("KIT_TURNS") ? atoi(getenv("KIT_TURNS")) : 200;
    for (int i = 0; i < turns && pointer() == native; i++) {
        MUST(cu.cuMemFreeHost(kit_pinned(33 * MIB)));
        kit_sleep_us(10000);
    }
    return ret;
}

unsigned kit_sum(const unsigned char *at, size_t bytes)
{
    uint64_t sum = 0, word;
    for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = sum * 31 + word;
    }
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 31 + at[i];
    return (unsigned)(sum ^ sum >> 32);
}
