/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for programs that read files by libraries which are named like PyTorch's and others. */
#include "kit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *kit_find(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    WANT(handle);
    void *function = dlsym(handle, name);
    WANT(function);
    return function;
}

void kit_await_imports(void)
{
    kit_await_ring();
    if (getenv("LD_PRELOAD"))
        kit_helpers(3);
    for (int i = 0; i < 100; i++) { /* the library's thread may have to wait for a CPU */
        MUST(cu.cuMemFreeHost(kit_pinned(33 * MIB)));
        kit_sleep_us(10000);
    }
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
