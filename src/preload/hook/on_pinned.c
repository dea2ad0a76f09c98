/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of calls that allocate, free, register or query pinned memory. The engine may serve a
 * call. Calls that it declines, and calls with a NULL result pointer, go to the driver.
 */
#include "preload/attach/attach.h"
#include "preload/hook/driver_call.h"
#include "preload/hook/timed_call.h"

/*
 * The result of a call that the engine may serve. function: of struct gf_transfer_ops; the further
 * arguments are its arguments. It is not called unless the condition is true. call: the driver's.
 */
#define SERVED(condition, call, function, ...)                                                     \
    ({                                                                                             \
        CUresult result_;                                                                          \
        bool served_ = false;                                                                      \
        if (condition)                                                                             \
            GF_WITH_TRANSFER(served_ = transfer->function(__VA_ARGS__, &result_));                 \
        served_ ? result_ : (call);                                                                \
    })

/* Tells the engine that the driver has allocated for a call from inside it. */
static CUresult note_alloc(CUresult result)
{
    const struct gf_engine *engine = gf_thread.inside ? gf_engine() : NULL;
    if (engine && engine->transfer && result == CUDA_SUCCESS)
        engine->transfer->host_alloc_inside();
    return result;
}

static CUresult note_pinned(CUresult result, void *const *pp, size_t bytes, unsigned flags)
{
    if (result == CUDA_SUCCESS)
        GF_WITH_TRANSFER(transfer->host_pinned(*pp, bytes, flags));
    return result;
}

GF_HOOK(cuMemHostAlloc, (void **pp, size_t bytesize, unsigned int Flags),
        GF_TIMED(gf_timed_driver_pin, "cuMemHostAlloc", bytesize, pp ? *pp : NULL,
                 note_pinned(SERVED(pp, note_alloc(real(pp, bytesize, Flags)), host_alloc, pp,
                                    bytesize, Flags),
                             pp, bytesize, Flags)));

/*
 * The same as cuMemHostAlloc, but without flags. The 32-bit cuMemAllocHost of CUDA 2 is not hooked.
 */
GF_HOOK(cuMemAllocHost_v2, (void **pp, size_t bytesize),
        GF_TIMED(gf_timed_driver_pin, "cuMemAllocHost_v2", bytesize, pp ? *pp : NULL,
                 note_pinned(SERVED(pp, note_alloc(real(pp, bytesize)), host_alloc, pp, bytesize,
                                    0),
                             pp, bytesize, 0)));

GF_HOOK(cuMemFreeHost, (void *p),
        GF_TIMED(gf_timed_driver_unpin, "cuMemFreeHost", 0, NULL,
                 SERVED(p, real(p), host_free, p)));

CUresult gf_on_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    GF_FIND_REAL(cuMemHostGetFlags);
    const CUresult result = real(pFlags, p);
    if (result == CUDA_SUCCESS)
        GF_WITH_TRANSFER(transfer->host_flags(p, pFlags));
    return result;
}
GF_ENTRY(cuMemHostGetFlags);

/* Replaces the size of the library's mapping by the size of the program's allocation. */
static void correct_mapping_size(CUdeviceptr p, size_t *bytes)
{
    if (bytes)
        GF_WITH_TRANSFER(transfer->host_mapping((const void *)(uintptr_t)p, bytes));
}

CUresult gf_on_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    GF_FIND_REAL(cuPointerGetAttribute);
    const CUresult result = real(data, attribute, ptr);
    if (attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE && result == CUDA_SUCCESS)
        correct_mapping_size(ptr, data);
    return result;
}
GF_ENTRY(cuPointerGetAttribute);

CUresult gf_on_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                      void **data, CUdeviceptr ptr)
{
    GF_FIND_REAL(cuPointerGetAttributes);
    const CUresult result = real(numAttributes, attributes, data, ptr);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < numAttributes; i++)
        if (attributes[i] == CU_POINTER_ATTRIBUTE_MAPPING_SIZE)
            correct_mapping_size(ptr, data[i]);
    return result;
}
GF_ENTRY(cuPointerGetAttributes);

/* Both versions of cuMemHostRegister have the same parameters. */
#define REGISTER(symbol)                                                                           \
    GF_HOOK(symbol, (void *p, size_t bytesize, unsigned int Flags),                                \
            GF_TIMED(gf_timed_driver_pin, #symbol, bytesize, p,                                    \
                     note_pinned(SERVED((p && bytesize), real(p, bytesize, Flags), host_register,  \
                                        p, bytesize, Flags),                                       \
                                 &p, bytesize, Flags)))

REGISTER(cuMemHostRegister);
REGISTER(cuMemHostRegister_v2);

GF_HOOK(cuMemHostUnregister, (void *p),
        GF_TIMED(gf_timed_driver_unpin, "cuMemHostUnregister", 0, p,
                 SERVED(p, real(p), host_unregister, p)));
