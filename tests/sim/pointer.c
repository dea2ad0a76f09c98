/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of cuPointerGetAttribute. */
#include "sim.h"

#include <string.h>

static bool is_host(const struct sim_range *range)
{
    return range->kind == sim_host_alloc || range->kind == sim_registered;
}

/* The driver maps device memory in units of 2 MiB, and memory of pools in units of 32 MiB. */
static size_t mapping_size(const struct sim_range *r)
{
    size_t unit = r->pool ? (size_t)32 << 20 : (size_t)2 << 20;
    return r->map_size ? r->map_size : (r->size + unit - 1) / unit * unit;
}

/*
 * The caller holds the lock. Returns the size of the answer, or 0 for an attribute that is not
 * simulated.
 */
static size_t answer(const struct sim_range *r, CUdeviceptr pointer, CUpointer_attribute what,
                     uint64_t *ret)
{
    *ret = 0;
    switch (what) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *ret = r->pool ? 0 : (uintptr_t)r->context;
        return sizeof(CUcontext);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *ret = is_host(r) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return sizeof(CUmemorytype);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *ret = pointer;
        return sizeof(CUdeviceptr);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *ret = r->kind == sim_device_memory ? 0 : pointer;
        return sizeof(void *);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *ret = r->sync_memops || r->kind == sim_managed;
        return sizeof(unsigned);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *ret = r->id;
        return sizeof(unsigned long long);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *ret = r->kind == sim_managed;
        return sizeof(unsigned);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *ret = (unsigned)r->device;
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *ret = r->start;
        return sizeof(void *);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *ret = r->size;
        return sizeof(size_t);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *ret = 1;
        return sizeof(unsigned);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *ret = (uintptr_t)r->pool;
        return sizeof(CUmemoryPool);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return sizeof(uint64_t);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *ret = r->kind == sim_device_memory && !r->pool;
        return sizeof(unsigned);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *ret = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return sizeof(unsigned);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *ret = mapping_size(r);
        return sizeof(size_t);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *ret = r->map_start ? r->map_start : r->start;
        return sizeof(void *);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *ret = r->id;
        return sizeof(unsigned long long);
    default:
        return 0;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute what, CUdeviceptr pointer)
{
    SIM_ENTER("cuPointerGetAttribute");
    uint64_t value;
    size_t size = 0;
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct sim_range *range = sim_range_at(pointer);
    if (range)
        size = answer(range, pointer, what, &value);
    pthread_mutex_unlock(&sim_lock);
    if (!size || (what == CU_POINTER_ATTRIBUTE_HOST_POINTER && !value))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &value, size);
    return CUDA_SUCCESS;
}

/* Unlike the query of one attribute, this succeeds for memory that the driver does not know. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *what, void **data,
                                CUdeviceptr pointer)
{
    static const struct sim_range unknown;
    SIM_ENTER("cuPointerGetAttributes");
    if (!what || !data || !count)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    struct sim_range *range = sim_range_at(pointer);
    for (unsigned i = 0; i < count; i++) {
        uint64_t value;
        size_t size = answer(range ? range : &unknown, pointer, what[i], &value);
        if (!size || !data[i]) {
            result = CUDA_ERROR_INVALID_VALUE;
            break;
        }
        if (!range)
            value = what[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint64_t)-2
                    : what[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ? pointer
                                                                   : 0;
        memcpy(data[i], &value, size);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute what, CUdeviceptr pointer)
{
    SIM_ENTER("cuPointerSetAttribute");
    pthread_mutex_lock(&sim_lock);
    struct sim_range *range = sim_range_at(pointer);
    bool good = value && range && what == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    if (good)
        range->sync_memops = *(const unsigned *)value;
    pthread_mutex_unlock(&sim_lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
