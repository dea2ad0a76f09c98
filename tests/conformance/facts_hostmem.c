/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemHostAlloc and cuMemFreeHost. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints the permissions and the name of the mapping at an address. */
static void row_mapping(const char *name, const void *address)
{
    char line[512], permissions[8], file[256];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        file[0] = 0;
        sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &end, permissions, file);
        if ((uintptr_t)address >= start && (uintptr_t)address < end)
            row(name, "%s %s", permissions, file[0] ? file : "anonymous");
    }
    fclose(maps);
}

static void flags_of(const char *name, unsigned wanted)
{
    void *host = NULL;
    unsigned flags = 99;
    char text[64];
    CUresult result = cu.cuMemHostAlloc(&host, 4096, wanted);
    snprintf(text, sizeof text, "flags.%s", name);
    if (result) {
        row(text, "code %d", (int)result);
        return;
    }
    result = cu.cuMemHostGetFlags(&flags, host);
    row(text, "reports %#x, code %d", flags, (int)result);
    cu.cuMemFreeHost(host);
}

static bool all_zero(const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (at[i])
            return false;
    return true;
}

static void zeroing(const char *name, size_t size)
{
    unsigned char *host = NULL;
    bool fresh = true;
    for (int i = 0; i < 8; i++) {
        MUST(cu.cuMemHostAlloc((void **)&host, size, 0));
        fresh = fresh && all_zero(host, size);
        memset(host, 0xee, size);
        MUST(cu.cuMemFreeHost(host));
    }
    row(name, "%s", fresh ? "all zero" : "old bytes");
}

void facts_hostmem(void)
{
    void *host = NULL, *other = NULL;
    unsigned flags;
    CUdeviceptr device = 0;
    size_t size = 0;
    start();
    flags_of("0", 0);
    flags_of("portable", CU_MEMHOSTALLOC_PORTABLE);
    flags_of("devicemap", CU_MEMHOSTALLOC_DEVICEMAP);
    flags_of("portable_devicemap", 3);
    flags_of("writecombined", CU_MEMHOSTALLOC_WRITECOMBINED);
    flags_of("unknown", 8);
    host = (void *)5;
    row_code("size_0", cu.cuMemHostAlloc(&host, 0, 0));
    row("size_0_pointer", "%s", host == (void *)5 ? "left alone" : host ? "written" : "NULL");
    row_code("null", cu.cuMemHostAlloc(NULL, 4096, 0));
    row_code("too_large", cu.cuMemHostAlloc(&host, (size_t)1 << 50, 0));
    MUST(cu.cuMemHostAlloc(&host, 1 << 20, 0));
    row_mapping("mapping", host);
    row("aligned", "%s", (uintptr_t)host % 4096 ? "no" : "to a page");
    row_code("flags_interior", cu.cuMemHostGetFlags(&flags, (char *)host + 5000));
    row_code("flags_end", cu.cuMemHostGetFlags(&flags, (char *)host + (1 << 20) - 1));
    row_code("flags_null", cu.cuMemHostGetFlags(NULL, host));
    row_code("flags_pageable", cu.cuMemHostGetFlags(&flags, &host));
    row_code("device_pointer", cu.cuMemHostGetDevicePointer_v2(&device, host, 0));
    row("device_pointer_is", "%s", device == (uintptr_t)host ? "the same" : "another");
    row_code("device_pointer_interior",
             cu.cuMemHostGetDevicePointer_v2(&device, (char *)host + 100, 0));
    row_code("device_pointer_flags", cu.cuMemHostGetDevicePointer_v2(&device, host, 1));
    row_code("device_pointer_pageable", cu.cuMemHostGetDevicePointer_v2(&device, &host, 0));
    row_code("range", cu.cuMemGetAddressRange_v2(&device, &size, (uintptr_t)host + 77));
    row("range_is", "%s, %zu", device == (uintptr_t)host ? "start" : "elsewhere", size);
    row_code("unregister", cu.cuMemHostUnregister(host));
    row_code("register_it", cu.cuMemHostRegister_v2(host, 4096, 0));
    row_code("register_its_middle", cu.cuMemHostRegister_v2((char *)host + 8192, 4096, 0));
    row_code("free_as_device", cu.cuMemFree_v2((uintptr_t)host));
    row_code("free_interior", cu.cuMemFreeHost((char *)host + 4096));
    row_code("free", cu.cuMemFreeHost(host));
    row_code("free_again", cu.cuMemFreeHost(host));
    row_code("free_null", cu.cuMemFreeHost(NULL));
    row_code("free_pageable", cu.cuMemFreeHost(&host));
    MUST(cu.cuMemAlloc_v2(&device, 4096));
    row_code("free_device", cu.cuMemFreeHost((void *)device));
    row_code("register_device", cu.cuMemHostRegister_v2((void *)device, 4096, 0));
    row_code("flags_device", cu.cuMemHostGetFlags(&flags, (void *)device));
    row_code("alloc_host", cu.cuMemAllocHost_v2(&other, 4096));
    row_code("alloc_host_flags", cu.cuMemHostGetFlags(&flags, other));
    row("alloc_host_flags_are", "%#x", flags);
    row_code("alloc_host_size_0", cu.cuMemAllocHost_v2(&other, 0));
    zeroing("zero.4K", 4096);
    zeroing("zero.100K", 100000);
    zeroing("zero.1M", 1 << 20);
    zeroing("zero.16M", 16 << 20);
}
