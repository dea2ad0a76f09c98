/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of calls that allocate, free, register or query pinned memory. The engine may serve a
 * call. Calls that it declines, and calls with a NULL result pointer, go to the driver.
 */
#include "preload/attach/attach.h"
#include "preload/hook/driver_call.h"
#include "preload/hook/timed_call.h"

/* Calls `function` of struct gf_transfer_ops. True if the engine has served the program's call. */
#define ENGINE_SERVED(function, ...)                                                               \
    ({                                                                                             \
        struct gf_engine_call call_;                                                               \
        const struct gf_transfer_ops *transfer_ = gf_engine_call_transfer(&call_);                 \
        const bool served_ = transfer_ && transfer_->function(__VA_ARGS__);                        \
        if (transfer_)                                                                             \
            gf_engine_call_end(&call_);                                                            \
        served_;                                                                                   \
    })

static CUresult note_alloc(CUresult result)
{
    const struct gf_engine *engine = gf_thread.inside ? gf_engine() : NULL;
    if (engine && engine->transfer && result == CUDA_SUCCESS)
        engine->transfer->host_alloc_inside();
    return result;
}

CUresult gf_on_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    CUresult result;
    __typeof__(cuMemHostAlloc) *real = GF_REAL(cuMemHostAlloc);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_pin, "cuMemHostAlloc", bytesize, pp ? *pp : NULL,
                    pp && ENGINE_SERVED(host_alloc, pp, bytesize, Flags, &result)
                        ? result
                        : note_alloc(real(pp, bytesize, Flags)));
}
GF_ENTRY(cuMemHostAlloc);

/*
 * The same as cuMemHostAlloc, but without flags. The 32-bit cuMemAllocHost of CUDA 2 is not hooked.
 */
CUresult gf_on_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    CUresult result;
    __typeof__(cuMemAllocHost_v2) *real = GF_REAL(cuMemAllocHost_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_pin, "cuMemAllocHost_v2", bytesize, pp ? *pp : NULL,
                    pp && ENGINE_SERVED(host_alloc, pp, bytesize, 0, &result)
                        ? result
                        : note_alloc(real(pp, bytesize)));
}
GF_ENTRY(cuMemAllocHost_v2);

CUresult gf_on_cuMemFreeHost(void *p)
{
    CUresult result;
    __typeof__(cuMemFreeHost) *real = GF_REAL(cuMemFreeHost);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_TIMED(gf_timed_driver_unpin, "cuMemFreeHost", 0, NULL,
                    p && ENGINE_SERVED(host_free, p, &result) ? result : real(p));
}
GF_ENTRY(cuMemFreeHost);

CUresult gf_on_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct gf_engine_call call;
    __typeof__(cuMemHostGetFlags) *real = GF_REAL(cuMemHostGetFlags);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(pFlags, p);
    const struct gf_transfer_ops *transfer =
        result == CUDA_SUCCESS ? gf_engine_call_transfer(&call) : NULL;
    if (transfer) {
        transfer->host_flags(p, pFlags);
        gf_engine_call_end(&call);
    }
    return result;
}
GF_ENTRY(cuMemHostGetFlags);

/* Replaces the size of the library's mapping by the size of the program's allocation. */
static void correct_mapping_size(CUdeviceptr p, size_t *bytes)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = bytes ? gf_engine_call_transfer(&call) : NULL;
    if (!transfer)
        return;
    transfer->host_mapping((const void *)(uintptr_t)p, bytes);
    gf_engine_call_end(&call);
}

CUresult gf_on_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    __typeof__(cuPointerGetAttribute) *real = GF_REAL(cuPointerGetAttribute);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(data, attribute, ptr);
    if (attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE && result == CUDA_SUCCESS)
        correct_mapping_size(ptr, data);
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
            correct_mapping_size(ptr, data[i]);
    return result;
}
GF_ENTRY(cuPointerGetAttributes);

/* Both versions of cuMemHostRegister have the same parameters. */
#define REGISTER(symbol)                                                                           \
    CUresult gf_on_##symbol(void *p, size_t bytesize, unsigned int Flags)                          \
    {                                                                                              \
        CUresult result;                                                                           \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return GF_TIMED(gf_timed_driver_pin, #symbol, bytesize, p,                                 \
                        p && bytesize && ENGINE_SERVED(host_register, p, bytesize, Flags, &result) \
                            ? result                                                               \
                            : real(p, bytesize, Flags));                                           \
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
                    p && ENGINE_SERVED(host_unregister, p, &result) ? result : real(p));
}
GF_ENTRY(cuMemHostUnregister);
