/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemHostRegister, and copies across the edges of registered memory. */
#include "conform.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *map(size_t size, int protection)
{
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    memset(at, 1, size);
    mprotect(at, size, protection);
    return at;
}

static void flags_of(const char *name, unsigned wanted)
{
    char text[64];
    unsigned flags = 99;
    char *at = map(8192, PROT_READ | PROT_WRITE);
    CUresult result = cu.cuMemHostRegister_v2(at, 8192, wanted);
    snprintf(text, sizeof text, "flags.%s", name);
    if (result) {
        row(text, "code %d", (int)result);
    } else {
        result = cu.cuMemHostGetFlags(&flags, at);
        row(text, "reports %#x, code %d", flags, (int)result);
        MUST(cu.cuMemHostUnregister(at));
    }
    munmap(at, 8192);
}

static void kinds_of_memory(void)
{
    char *at = map(8192, PROT_READ);
    row_code("read_only", cu.cuMemHostRegister_v2(at, 8192, 0));
    cu.cuMemHostUnregister(at);
    row_code("read_only_flag", cu.cuMemHostRegister_v2(at, 8192, CU_MEMHOSTREGISTER_READ_ONLY));
    cu.cuMemHostUnregister(at);
    mprotect(at, 8192, PROT_NONE);
    row_code("no_access", cu.cuMemHostRegister_v2(at, 8192, 0));
    cu.cuMemHostUnregister(at);
    munmap(at, 8192);
    row_code("unmapped", cu.cuMemHostRegister_v2(at, 8192, 0));
    int zero = open("/proc/self/exe", O_RDONLY);
    at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
    row_code("private_file", cu.cuMemHostRegister_v2(at, 4096, 0));
    cu.cuMemHostUnregister(at);
    at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    row_code("shared", cu.cuMemHostRegister_v2(at, 1 << 20, 0));
    row_code("shared_unregister", cu.cuMemHostUnregister(at));
    at = malloc(100000);
    row_code("heap_unaligned", cu.cuMemHostRegister_v2(at + 3, 5000, 0));
    row_code("heap_unregister", cu.cuMemHostUnregister(at + 3));
}

static void overlaps(void)
{
    char *at = map(1 << 20, PROT_READ | PROT_WRITE);
    unsigned flags;
    CUdeviceptr device = 0;
    size_t size = 0;
    row_code("null", cu.cuMemHostRegister_v2(NULL, 4096, 0));
    row_code("size_0", cu.cuMemHostRegister_v2(at, 0, 0));
    row_code("register", cu.cuMemHostRegister_v2(at + 100, 10000, 0));
    row_code("again", cu.cuMemHostRegister_v2(at + 100, 10000, 0));
    row_code("overlap", cu.cuMemHostRegister_v2(at + 5000, 10000, 0));
    row_code("inside", cu.cuMemHostRegister_v2(at + 4096, 4096, 0));
    row_code("around", cu.cuMemHostRegister_v2(at, 65536, 0));
    row_code("same_page_after", cu.cuMemHostRegister_v2(at + 10200, 1000, 0));
    row_code("same_page_before", cu.cuMemHostRegister_v2(at, 100, 0));
    row_code("next_page", cu.cuMemHostRegister_v2(at + 12288, 4096, 0));
    row_code("flags_first", cu.cuMemHostGetFlags(&flags, at + 100));
    row_code("flags_before", cu.cuMemHostGetFlags(&flags, at + 50));
    row_code("flags_after", cu.cuMemHostGetFlags(&flags, at + 10150));
    row_code("device_pointer", cu.cuMemHostGetDevicePointer_v2(&device, at + 200, 0));
    row("device_pointer_is", "%s", device == (uintptr_t)at + 200 ? "the same" : "another");
    row_code("range", cu.cuMemGetAddressRange_v2(&device, &size, (uintptr_t)at + 300));
    row("range_is", "start %+ld, %zu", (long)(device - (uintptr_t)at), size);
    row_code("free", cu.cuMemFreeHost(at + 100));
    row_code("unregister_interior", cu.cuMemHostUnregister(at + 4096));
    row_code("unregister_page", cu.cuMemHostUnregister(at));
    row_code("unregister", cu.cuMemHostUnregister(at + 100));
    row_code("unregister_again", cu.cuMemHostUnregister(at + 100));
    row_code("unregister_null", cu.cuMemHostUnregister(NULL));
    row_code("unregister_pageable", cu.cuMemHostUnregister(at + 65536));
    cu.cuMemHostUnregister(at + 12288);
    cu.cuMemHostUnregister(at + 10200);
    cu.cuMemHostUnregister(at);
}

/* Copies whose host end crosses the end of a registration. */
static void crossing(void)
{
    char *at = map(1 << 20, PROT_READ | PROT_WRITE);
    CUdeviceptr device;
    CUstream stream;
    MUST(cu.cuMemAlloc_v2(&device, 1 << 20));
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemHostRegister_v2(at + 65536, 65536, 0));
    MUST(cu.cuMemHostRegister_v2(at + 131072, 65536, 0));
    row_code("cross.two", cu.cuMemcpyHtoD_v2(device, at + 65536, 131072));
    row_code("cross.two_async", cu.cuMemcpyHtoDAsync_v2(device, at + 65536, 131072, stream));
    row_code("cross.two_back", cu.cuMemcpyDtoH_v2(at + 65536, device, 131072));
    row_code("cross.out", cu.cuMemcpyHtoD_v2(device, at + 131072, 131072));
    row_code("cross.out_back", cu.cuMemcpyDtoH_v2(at + 131072, device, 131072));
    row_code("cross.in", cu.cuMemcpyHtoD_v2(device, at, 131072));
    row_code("cross.in_async", cu.cuMemcpyHtoDAsync_v2(device, at, 131072, stream));
    row_code("cross.in_back", cu.cuMemcpyDtoH_v2(at, device, 131072));
    row_code("cross.around", cu.cuMemcpyHtoD_v2(device, at, 1 << 19));
    row_code("cross.inside", cu.cuMemcpyHtoD_v2(device, at + 65536 + 100, 1000));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuMemHostUnregister(at + 65536));
    MUST(cu.cuMemHostUnregister(at + 131072));
}

void facts_register(void)
{
    start();
    flags_of("0", 0);
    flags_of("portable", CU_MEMHOSTREGISTER_PORTABLE);
    flags_of("devicemap", CU_MEMHOSTREGISTER_DEVICEMAP);
    flags_of("portable_devicemap", 3);
    flags_of("read_only", CU_MEMHOSTREGISTER_READ_ONLY);
    flags_of("iomemory", CU_MEMHOSTREGISTER_IOMEMORY);
    flags_of("unknown", 0x40);
    kinds_of_memory();
    overlaps();
    crossing();
}
