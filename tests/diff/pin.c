/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory: the driver's answers about it, wrong uses, reuse while a copy reads it, and forked
 * children.
 */
#include "diff.h"

#include <sys/wait.h>
#include <unistd.h>

#define SHARED ((size_t)2 << 20) /* smaller pinned blocks may lie in one mapping */

static struct host *any_pinned(struct thread *t)
{
    for (int tries = 0; tries < 50; tries++) {
        struct host *h = &t->host[any(t, HOSTS)];
        if (h->kind == kind_pinned || h->kind == kind_pinned_v2)
            return h;
    }
    return NULL;
}

/*
 * Small blocks share mappings with other blocks, including those of the library. So their mapping
 * is not printed.
 */
static bool is_small(const struct host *h)
{
    return h->size < SHARED && (h->kind == kind_pinned || h->kind == kind_pinned_v2);
}

static void say_attribute(struct thread *t, const char *name, CUpointer_attribute what,
                          uintptr_t at, uintptr_t minus)
{
    uint64_t value = 0;
    CUresult result = CALL(t, cuPointerGetAttribute, &value, what, at);
    say(t, "attribute %s -> %d %ld", name, (int)result,
        result ? 0 : (long)(minus ? value - minus : value));
}

void act_attributes(struct thread *t)
{
    struct host *h = chance(t, 70) ? any_pinned(t) : any_host(t, false);
    unsigned flags = 0;
    CUdeviceptr device = 0;
    if (!h)
        return;
    uintptr_t at = (uintptr_t)h->at + any_offset(t, h->size - 1);
    uintptr_t start = (uintptr_t)h->at;
    say(t, "attributes of %s", kind_name(h->kind));
    CUresult result = CALL(t, cuMemHostGetFlags, &flags, (void *)at);
    if (is_small(h))
        /* PORTABLE comes from the first block in the mapping, which any thread may have allocated */
        flags &= ~1u;
    say(t, "flags -> %d %#x", (int)result, flags);
    result = CALL(t, cuMemHostGetDevicePointer_v2, &device, (void *)at, 0);
    say(t, "device pointer -> %d %ld", (int)result, result ? 0 : (long)(device - at));
    say_attribute(t, "type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at, 0);
    say_attribute(t, "managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, at, 0);
    say_attribute(t, "mapped", CU_POINTER_ATTRIBUTE_MAPPED, at, 0);
    say_attribute(t, "ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at, 0);
    say_attribute(t, "start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at, start);
    say_attribute(t, "size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, at, 0);
    say_attribute(t, "host", CU_POINTER_ATTRIBUTE_HOST_POINTER, at, start);
    say_attribute(t, "device", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at, start);
    /*
     * For memory of malloc, the answer depends on the offset in the page. For a small block, it
     * depends on other blocks.
     */
    if ((h->map_size || !h->pinned_at) && !is_small(h))
        say_attribute(t, "mapping", CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at, 0);
    if ((h->kind == kind_pinned || h->kind == kind_pinned_v2) && !is_small(h))
        say_attribute(t, "base", CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at, start);
    say_attribute(t, "access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at, 0);
    say_attribute(t, "handles", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at, 0);
    say_attribute(t, "pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at, 0);
    say_attribute(t, "ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at, 0);
    say_attribute(t, "rdma", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at, 0);
    say_attribute(t, "sync", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at, 0);
}

/* Returns a pinned block; some are large enough to be served by the library. */
static struct host *large_pinned(struct thread *t)
{
    struct host *h = any_pinned(t);
    for (int i = 0; i < HOSTS; i++)
        if (t->host[i].kind == kind_pinned && (!h || t->host[i].size > h->size))
            h = &t->host[i];
    return h;
}

/* Wrong ways to free pinned memory, or to pin it again. */
void act_pin_wrong(struct thread *t)
{
    struct host *h = chance(t, 50) ? large_pinned(t) : any_pinned(t);
    struct host *other = any_host(t, false);
    void *at = NULL;
    CUresult result;
    switch (any(t, 10)) {
    case 0:
        result = h ? CALL(t, cuMemHostUnregister, h->at) : CUDA_SUCCESS;
        break;
    case 1:
        result = h ? CALL(t, cuMemHostRegister_v2, h->at, h->size, 0) : CUDA_SUCCESS;
        break;
    case 2:
        result = h && h->size > 64 ? CALL(t, cuMemFreeHost, h->at + 64) : CUDA_SUCCESS;
        break;
    case 3:
        result = host_pageable(other) ? CALL(t, cuMemFreeHost, other->at) : CUDA_SUCCESS;
        break;
    case 4:
        result = host_pageable(other) ? CALL(t, cuMemHostUnregister, other->at) : CUDA_SUCCESS;
        break;
    case 5:
        result = CALL(t, cuMemHostAlloc, &at, any(t, 2) ? 0 : ~(size_t)0 >> 1, 0);
        break;
    case 6:
        result = CALL(t, cuMemHostAlloc, &at, 4096, 1u << (5 + any(t, 8)));
        break;
    case 7:
        result = CALL(t, cuMemFreeHost, (void *)(uintptr_t)any_device(t)->at);
        break;
    case 8:
        result = h ? CALL(t, cuMemFree_v2, (uintptr_t)h->at) : CUDA_SUCCESS;
        break;
    default:
        result = CALL(t, cuMemFreeHost, NULL);
    }
    say(t, "pin wrong -> %d, pointer %s", (int)result, at ? "given" : "none");
}

/*
 * The program frees pinned memory while a copy reads it. The free waits for the copy. The program
 * writes to the next allocation of that size at once, but the device must have the old bytes.
 */
void act_pin_reuse(struct thread *t)
{
    struct device *d = any_device(t);
    struct host one, two;
    int stream = any_stream(t);
    bool own;
    size_t size = any_size(t, d->size);
    CUstream s = stream_handle(t, stream, &own);
    uint64_t ns = 1000 * any(t, 400);
    void *params[] = {&ns};
    enum kind kind = chance(t, 50) ? kind_pinned : kind_pinned_v2;
    host_make(t, &one, kind, size);
    if (one.kind == kind_none)
        return;
    order(t, stream, &d->busy);
    MUST(t, cuLaunchKernel, t->now->spin, 1, 1, 1, 1, 1, 1, 0,
         stream == OWN ? CU_STREAM_PER_THREAD : t->now->stream[stream].handle, params, NULL);
    CUresult result = own ? CALL(t, cuMemcpyHtoDAsync_v2_ptsz, d->at, one.at, size, s)
                          : CALL(t, cuMemcpyHtoDAsync_v2, d->at, one.at, size, s);
    say(t, "h2d-async then freed size %zu stream %d -> %d", size, stream, (int)result);
    result = CALL(t, cuMemFreeHost, one.at);
    say(t, "freed -> %d", (int)result);
    host_make(t, &two, kind, size);
    read_back(t, d, 0, size);
    result = two.kind == kind_none ? CUDA_SUCCESS : CALL(t, cuMemFreeHost, two.at);
    say(t, "freed -> %d", (int)result);
}

/*
 * Registers the program's memory for a copy. Also registers it read-only, twice or in part, and
 * unregisters it twice.
 */
void act_register(struct thread *t)
{
    static const unsigned flags[] = {0, 1, 2, 3, 8, 9};
    struct host *h = any_host(t, false);
    struct device *d = any_device(t);
    const unsigned how = flags[any(t, 6)];
    const int stream = any_stream(t);
    unsigned got = 99;
    bool own;
    CUstream s = stream_handle(t, stream, &own);
    size_t size = any_size(t, h->size < d->size ? h->size : d->size);
    if (!host_pageable(h) || h->busy)
        return;
    CUresult result = CALL(t, cuMemHostRegister_v2, h->at, h->size, how);
    say(t, "register %s %zu as %#x -> %d", kind_name(h->kind), h->size, how, (int)result);
    if (result)
        return;
    const size_t from = any_offset(t, h->size - 1), more = 1 + any(t, h->size - from);
    result = CALL(t, cuMemHostRegister_v2, h->at + from, more, how);
    say(t, "again in part -> %d", (int)result);
    if (!result)
        MUST(t, cuMemHostUnregister, h->at + from);
    result = CALL(t, cuMemHostGetFlags, &got, h->at);
    say(t, "flags -> %d %#x", (int)result, got);
    order(t, stream, &d->busy);
    result = own ? CALL(t, cuMemcpyHtoDAsync_v2_ptsz, d->at, h->at, size, s)
                 : CALL(t, cuMemcpyHtoDAsync_v2, d->at, h->at, size, s);
    say(t, "h2d-async registered size %zu stream %d -> %d", size, stream, (int)result);
    if (result)
        refused(t);
    result = CALL(t, cuMemHostUnregister, h->at); /* waits for the copy */
    say(t, "unregister -> %d, again %d", (int)result, (int)CALL(t, cuMemHostUnregister, h->at));
    read_back(t, d, 0, size);
}

/*
 * Forks a child. Pinned memory of the driver is shared with the child in both directions. Other
 * memory is shared or copied, as it was mapped.
 */
void act_fork(struct thread *t)
{
    struct host *h = chance(t, 50) ? large_pinned(t) : any_host(t, true);
    int status = 0;
    if (!h || !options.forks || options.threads > 1 || h->kind == kind_managed)
        return;
    host_settle(t, h);
    size_t at = any_offset(t, h->size - 1);
    pid_t child = fork();
    if (child < 0)
        crash(t, "fork failed");
    if (child == 0) {
        bool seen = hash(h->at, h->size) != 0;
        h->at[at] ^= 0x5a;
        _exit(seen ? 7 : 8);
    }
    waitpid(child, &status, 0);
    say(t, "fork with %s -> %#x, %016lx", kind_name(h->kind), (unsigned)status,
        (unsigned long)host_hash(h, h->at, h->size));
}
