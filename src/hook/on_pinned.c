/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory that the program allocates, frees, registers or asks about. The engine may serve it; what it
 * declines, and whatever has no place for a result, is the driver's to judge.
 */
#include "hook/on_cuda.h"

#include "hook/visit.h"
#include "hook/watch.h"

static bool allocated(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = pp ? gf_visit_transfer(&visit) : NULL;
    if (!transfer)
        return false;
    const bool done = transfer->host_alloc(pp, bytes, flags, ret_result);
    gf_visit_end(&visit);
    return done;
}

static bool freed(void *p, CUresult *ret_result)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = p ? gf_visit_transfer(&visit) : NULL;
    if (!transfer)
        return false;
    const bool done = transfer->host_free(p, ret_result);
    gf_visit_end(&visit);
    return done;
}

static bool unregistered(void *p, CUresult *ret_result)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = p ? gf_visit_transfer(&visit) : NULL;
    if (!transfer)
        return false;
    const bool done = transfer->host_unregister(p, ret_result);
    gf_visit_end(&visit);
    return done;
}

static bool registered(void *p, size_t bytes, unsigned flags, CUresult *ret_result)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = p && bytes ? gf_visit_transfer(&visit) : NULL;
    if (!transfer)
        return false;
    const bool done = transfer->host_register(p, bytes, flags, ret_result);
    gf_visit_end(&visit);
    return done;
}

CUresult gf_on_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    CUresult result;
    __typeof__(cuMemHostAlloc) *real = GF_REAL(cuMemHostAlloc);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_pin, "cuMemHostAlloc", bytesize, *pp,
                    allocated(pp, bytesize, Flags, &result) ? result : real(pp, bytesize, Flags));
}
GF_ENTRY(cuMemHostAlloc);

/* The same as cuMemHostAlloc without flags; the 32-bit entry of CUDA 2 is left alone. */
CUresult gf_on_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    CUresult result;
    __typeof__(cuMemAllocHost_v2) *real = GF_REAL(cuMemAllocHost_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_pin, "cuMemAllocHost_v2", bytesize, *pp,
                    allocated(pp, bytesize, 0, &result) ? result : real(pp, bytesize));
}
GF_ENTRY(cuMemAllocHost_v2);

CUresult gf_on_cuMemFreeHost(void *p)
{
    CUresult result;
    __typeof__(cuMemFreeHost) *real = GF_REAL(cuMemFreeHost);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_unpin, "cuMemFreeHost", 0, NULL,
                    freed(p, &result) ? result : real(p));
}
GF_ENTRY(cuMemFreeHost);

CUresult gf_on_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct gf_visit visit;
    __typeof__(cuMemHostGetFlags) *real = GF_REAL(cuMemHostGetFlags);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(pFlags, p);
    const struct gf_transfer_ops *transfer =
        result == CUDA_SUCCESS ? gf_visit_transfer(&visit) : NULL;
    if (transfer) {
        transfer->host_flags(p, pFlags);
        gf_visit_end(&visit);
    }
    return result;
}
GF_ENTRY(cuMemHostGetFlags);

static void mend_mapping(CUdeviceptr p, size_t *bytes)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = bytes ? gf_visit_transfer(&visit) : NULL;
    if (!transfer)
        return;
    transfer->host_mapping((const void *)(uintptr_t)p, bytes);
    gf_visit_end(&visit);
}

CUresult gf_on_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    __typeof__(cuPointerGetAttribute) *real = GF_REAL(cuPointerGetAttribute);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(data, attribute, ptr);
    if (attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE && result == CUDA_SUCCESS)
        mend_mapping(ptr, data);
    return result;
}
GF_ENTRY(cuPointerGetAttribute);

CUresult gf_on_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                      void **data, CUdeviceptr ptr)
{
    __typeof__(cuPointerGetAttributes) *real = GF_REAL(cuPointerGetAttributes);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(numAttributes, attributes, data, ptr);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < numAttributes; i++)
        if (attributes[i] == CU_POINTER_ATTRIBUTE_MAPPING_SIZE)
            mend_mapping(ptr, data[i]);
    return result;
}
GF_ENTRY(cuPointerGetAttributes);

/* Both versions take the same parameters. */
#define REGISTER(symbol)                                                                           \
    CUresult gf_on_##symbol(void *p, size_t bytesize, unsigned int Flags)                          \
    {                                                                                              \
        CUresult result;                                                                           \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return GF_TIMED(gf_timed_driver_pin, #symbol, bytesize, p,                                 \
                        registered(p, bytesize, Flags, &result) ? result                           \
                                                                : real(p, bytesize, Flags));       \
    }                                                                                              \
    GF_ENTRY(symbol)

REGISTER(cuMemHostRegister);
REGISTER(cuMemHostRegister_v2);

CUresult gf_on_cuMemHostUnregister(void *p)
{
    CUresult result;
    __typeof__(cuMemHostUnregister) *real = GF_REAL(cuMemHostUnregister);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_unpin, "cuMemHostUnregister", 0, p,
                    unregistered(p, &result) ? result : real(p));
}
GF_ENTRY(cuMemHostUnregister);
