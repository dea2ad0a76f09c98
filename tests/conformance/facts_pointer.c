/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, and the answers of cuPointerGetAttribute for every kind of pointer. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUcontext context;

static void attributes(const char *kind, uintptr_t start_at, size_t offset)
{
    for (int i = 1; i <= 21; i++) {
        char name[64];
        unsigned char bytes[64] = {0};
        uint64_t value = 0;
        if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            continue;
        CUresult result =
            cu.cuPointerGetAttribute(bytes, (CUpointer_attribute)i, start_at + offset);
        memcpy(&value, bytes, sizeof value);
        snprintf(name, sizeof name, "%s.attribute.%d", kind, i);
        if (result)
            row(name, "code %d", (int)result);
        else if (value == start_at + offset)
            row(name, "%s", "the pointer");
        else if (value == start_at)
            row(name, "%s", "the start");
        else if (value == (uintptr_t)context)
            row(name, "%s", "the context");
        else if (i == CU_POINTER_ATTRIBUTE_BUFFER_ID || i == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
                 i == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
            row(name, "%s", value ? "something" : "0");
        else
            row(name, "%llu", (unsigned long long)value);
    }
}

static void several(const char *kind, uintptr_t pointer)
{
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 99, managed = 99;
    int ordinal = 99;
    CUcontext owner = (CUcontext)9;
    CUdeviceptr device = 9;
    void *host = (void *)9;
    void *data[] = {&type, &owner, &device, &host, &managed, &ordinal};
    char name[64];
    CUresult result = cu.cuPointerGetAttributes(6, what, data, pointer);
    snprintf(name, sizeof name, "%s.attributes", kind);
    row(name,
        "code %d: type %u, context %s, device pointer %s, host pointer %s, managed %u, "
        "ordinal %d",
        (int)result, type,
        owner == context ? "ours"
        : owner          ? "?"
                         : "NULL",
        device == pointer ? "same"
        : device          ? "?"
                          : "0",
        host == (void *)pointer ? "same"
        : host                  ? "?"
                                : "NULL",
        managed, ordinal);
}

static void allocations(void)
{
    CUdeviceptr one = 0, two = 0;
    size_t pitch = 0, size = 0, all = 0;
    row_code("alloc.size_0", cu.cuMemAlloc_v2(&one, 0));
    row_code("alloc.null", cu.cuMemAlloc_v2(NULL, 4096));
    row_code("alloc.too_large", cu.cuMemAlloc_v2(&one, (size_t)1 << 44));
    row_code("alloc", cu.cuMemAlloc_v2(&one, 1000));
    row("alloc.aligned", "%s", one % 512 ? "no" : "to 512");
    row_code("range", cu.cuMemGetAddressRange_v2(&two, &size, one + 10));
    row("range_is", "%s, %zu", two == one ? "start" : "elsewhere", size);
    row_code("range_pageable", cu.cuMemGetAddressRange_v2(&two, &size, (uintptr_t)&one));
    row_code("range_null", cu.cuMemGetAddressRange_v2(NULL, NULL, one));
    row_code("free.interior", cu.cuMemFree_v2(one + 512));
    row_code("free", cu.cuMemFree_v2(one));
    row_code("free.again", cu.cuMemFree_v2(one));
    row_code("free.null", cu.cuMemFree_v2(0));
    row_code("free.pageable", cu.cuMemFree_v2((uintptr_t)&one));
    row_code("pitch", cu.cuMemAllocPitch_v2(&one, &pitch, 1000, 10, 4));
    row("pitch_is", "%zu", pitch);
    row_code("pitch.element", cu.cuMemAllocPitch_v2(&two, &pitch, 1000, 10, 3));
    row_code("pitch.height_0", cu.cuMemAllocPitch_v2(&two, &pitch, 1000, 0, 4));
    MUST(cu.cuMemFree_v2(one));
    row_code("info", cu.cuMemGetInfo_v2(&size, &all));
    row("info_is", "%s", size < all ? "less than all" : "all");
    row_code("info_null", cu.cuMemGetInfo_v2(NULL, NULL));
}

void facts_pointer(void)
{
    static char pageable[4096];
    void *host;
    CUdeviceptr device;
    context = start();
    allocations();
    char *registered = aligned_alloc(4096, 65536);
    memset(registered, 0, 65536);
    attributes("pageable", (uintptr_t)pageable, 16);
    several("pageable", (uintptr_t)pageable);
    attributes("null", 0, 0);
    MUST(cu.cuMemHostAlloc(&host, 65536, 0));
    attributes("host", (uintptr_t)host, 16);
    several("host", (uintptr_t)host);
    MUST(cu.cuMemFreeHost(host));
    MUST(cu.cuMemHostRegister_v2(registered, 65536, 0));
    attributes("registered", (uintptr_t)registered, 16);
    several("registered", (uintptr_t)registered);
    MUST(cu.cuMemHostUnregister(registered));
    row_code("after_unregister", cu.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                          (uintptr_t)registered));
    MUST(cu.cuMemAlloc_v2(&device, 4 << 20));
    attributes("device", device, 16);
    several("device", device);
    MUST(cu.cuMemFree_v2(device));
    row_code("managed.alloc_0", cu.cuMemAllocManaged(&device, 65536, 0));
    row_code("managed.alloc", cu.cuMemAllocManaged(&device, 65536, CU_MEM_ATTACH_GLOBAL));
    attributes("managed", device, 16);
    several("managed", device);
    MUST(cu.cuMemFree_v2(device));
    MUST(cu.cuMemAllocAsync(&device, 65536, NULL));
    attributes("pool", device, 16);
    row_code("pool.free", cu.cuMemFree_v2(device));
}
