/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the driver knows, and allocations on the device. Device memory is host memory at an
 * address that the program never sees. The program's pointer is in a reserved range, in which each
 * access of the host faults.
 */
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

/* The part of the device memory that the driver itself uses. */
#define OVERHEAD ((size_t)600 << 20)
#define DEVICE_ALIGN ((size_t)512)
#define BLOCK ((size_t)64 << 20)

static struct sim_range *ranges;

struct sim_range *sim_range_at(uintptr_t address)
{
    for (struct sim_range *r = ranges; r; r = r->next)
        if (address >= r->start && address - r->start < r->size)
            return r;
    return NULL;
}

struct sim_range *sim_range_meets(uintptr_t start, size_t size)
{
    for (struct sim_range *r = ranges; r; r = r->next)
        if (start < r->start + r->size && r->start < start + size)
            return r;
    return NULL;
}

void sim_range_add(struct sim_range *range)
{
    range->id = sim_next_id();
    range->next = ranges;
    ranges = range;
}

void sim_range_remove(struct sim_range *range)
{
    struct sim_range **at = &ranges;
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    free(range);
}

/*
 * Returns the next address for the program. Addresses are adjacent, because a device's allocations
 * are in one range, and are never reused.
 */
static void *next_pointer(size_t size)
{
    static char *at, *end;
    void *ret = NULL;
    size = (size + DEVICE_ALIGN - 1) & ~(DEVICE_ALIGN - 1);
    pthread_mutex_lock(&sim_lock);
    if (!at || size > (size_t)(end - at)) {
        size_t block = (size + BLOCK - 1) & ~(BLOCK - 1);
        void *mapped =
            mmap(NULL, block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        at = mapped == MAP_FAILED ? NULL : mapped;
        end = at ? at + block : NULL;
    }
    if (at) {
        ret = at;
        at += size;
    }
    pthread_mutex_unlock(&sim_lock);
    return ret;
}

CUresult sim_device_alloc(struct sim_context *context, size_t size, struct sim_range **ret)
{
    struct sim_device *device = &sim_devices[context->device];
    size_t mapped = (size + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
    if (mapped < size || mapped > sim_config.memory - device->used - OVERHEAD)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_range *range = calloc(1, sizeof *range);
    void *seen = next_pointer(size);
    void *backing = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!range || !seen || backing == MAP_FAILED) {
        free(range);
        if (backing != MAP_FAILED)
            munmap(backing, mapped);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    madvise(backing, mapped, MADV_DONTFORK);
    madvise(backing, mapped, MADV_HUGEPAGE); /* fewer page faults */
    range->kind = sim_device_memory;
    range->start = (uintptr_t)seen;
    range->size = size;
    range->mapped = mapped;
    range->backing = backing;
    range->context = context;
    range->device = context->device;
    pthread_mutex_lock(&sim_lock);
    device->used += mapped;
    sim_range_add(range);
    pthread_mutex_unlock(&sim_lock);
    *ret = range;
    return CUDA_SUCCESS;
}

void sim_device_free(struct sim_range *range)
{
    if (range->kind == sim_managed)
        munmap((void *)range->start, range->mapped);
    /* Keeps the mapping, because work may still write there. */
    if (range->kind == sim_device_memory && range->pool)
        madvise(range->backing, range->mapped, MADV_DONTNEED);
    else if (range->kind == sim_device_memory)
        munmap(range->backing, range->mapped);
    sim_devices[range->device].used -= range->mapped;
    sim_range_remove(range);
}

void sim_context_forget(struct sim_context *context)
{
    for (struct sim_range *r = ranges, *next; r; r = next) {
        next = r->next;
        if (r->context != context)
            continue;
        if (r->kind == sim_device_memory || r->kind == sim_managed) {
            sim_device_free(r);
        } else {
            if (r->kind == sim_host_alloc)
                sim_pinned_free(r);
            sim_range_remove(r);
        }
    }
}

/* Returns an error if a capture forbids allocations, which also invalidates that capture. */
static CUresult may_allocate(void)
{
    pthread_mutex_lock(&sim_lock);
    CUresult result = sim_unsafe();
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t size)
{
    struct sim_range *range;
    SIM_ENTER_CONTEXT("cuMemAlloc_v2", context);
    CUresult result = may_allocate();
    if (result)
        return result;
    if (!ret || !size)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_device_alloc(context, size, &range);
    if (!result)
        *ret = range->start;
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *ret, size_t *pitch, size_t width, size_t height,
                            unsigned element)
{
    struct sim_range *range;
    SIM_ENTER_CONTEXT("cuMemAllocPitch_v2", context);
    CUresult result = may_allocate();
    if (result)
        return result;
    if (!ret || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = (width + 511) & ~(size_t)511;
    result = sim_device_alloc(context, row * height, &range);
    if (result)
        return result;
    *ret = range->start;
    *pitch = row;
    return CUDA_SUCCESS;
}

/*
 * Like the driver, waits for all streams of the memory's context, unless the memory is from a pool.
 */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    struct sim_context *context;
    SIM_ENTER("cuMemFree_v2");
    CUresult entered = sim_context_current(&context);
    if (entered)
        return !pointer && entered == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : entered;
    pthread_mutex_lock(&sim_lock);
    CUresult result = sim_unsafe();
    struct sim_range *range = sim_range_at(pointer);
    if (!result && pointer) {
        if (!range || range->start != pointer ||
            (range->kind != sim_device_memory && range->kind != sim_managed)) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else {
            if (!range->pool)
                sim_wait_context(range->context);
            range = sim_range_at(pointer); /* another thread may have freed it first */
            if (range)
                sim_device_free(range);
        }
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t size, unsigned flags)
{
    SIM_ENTER_CONTEXT("cuMemAllocManaged", context);
    CUresult result = may_allocate();
    if (result)
        return result;
    if (!ret || !size || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    size_t mapped = (size + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
    struct sim_range *range = calloc(1, sizeof *range);
    void *seen = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!range || seen == MAP_FAILED) {
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->kind = sim_managed;
    range->start = (uintptr_t)seen;
    range->size = size;
    range->mapped = mapped;
    range->backing = seen;
    range->context = context;
    range->device = context->device;
    pthread_mutex_lock(&sim_lock);
    sim_devices[range->device].used += mapped;
    sim_range_add(range);
    pthread_mutex_unlock(&sim_lock);
    *ret = range->start;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    SIM_ENTER_CONTEXT("cuMemGetInfo_v2", context);
    if (free_bytes)
        *free_bytes = sim_config.memory - sim_devices[context->device].used - OVERHEAD;
    if (total)
        *total = sim_config.memory;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    SIM_ENTER_CONTEXT("cuMemGetAddressRange_v2", context);
    pthread_mutex_lock(&sim_lock);
    struct sim_range *range = sim_range_at(pointer);
    if (range && base)
        *base = range->start;
    if (range && size)
        *size = range->size;
    pthread_mutex_unlock(&sim_lock);
    return range ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
