/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hooks of copies and of pinned memory ask of the engine's src/transfer: part of struct
 * gf_engine. Unlike the rest of it these calls may take as long as the driver's own would: a copy
 * waits for its stream, a free for the device.
 *
 * Each is called on the program's thread, inside gf_engine_enter (CUDA calls made in here pass
 * through), with cancellation held. Each answers true when it has done the program's call, with
 * the driver's result for it in *ret_result, or false when it has done nothing that the program
 * could see: the hook then makes the driver's own call with the caller's own arguments.
 */
#ifndef GF_HOOK_TRANSFER_API_H
#define GF_HOOK_TRANSFER_API_H

#include "base/base.h"
#include "hook/cuda.h"

enum gf_copy_way {
    gf_copy_h2d, /* the entry says that src is the host's */
    gf_copy_d2h, /* the entry says that dst is the host's */
    gf_copy_any, /* unified entries: the addresses say it */
    gf_copy_batched, /* the same, and only a copy to the device is for staging */
};

/* One linear copy. Host ends stand in dst and src as numbers too. */
struct gf_copy_call {
    enum gf_copy_way way;
    bool async;
    CUdeviceptr dst, src;
    size_t bytes;
    CUstream stream; /* never 0: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD where the caller said that */
};

/* A device that the call does not name. */
#define GF_ANY_DEVICE (-2)

struct gf_transfer_ops {
    /* Smaller copies need not ask; SIZE_MAX where none is staged (and none observed). */
    size_t copy_least;
    /* A false leaves a word of the engine's own in *ret_result, for copy_declined. */
    bool (*copy)(const struct gf_copy_call *call, CUresult *ret_result);
    /* After the driver's call for a declined copy, which took so long. NULL: nobody counts. */
    void (*copy_declined)(const struct gf_copy_call *call, CUresult word, uint64_t ns);
    /*
     * Whether copy would stage this one, as far as can be told without doing anything: both ends,
     * stream and capture were looked at. A false is counted with its reason. NULL: never.
     */
    bool (*copy_fits)(const struct gf_copy_call *call);

    /* Pinned memory. NULL out-parameters and odd flags are the driver's to judge: answer false. */
    bool (*host_alloc)(void **pp, size_t bytes, unsigned flags, CUresult *ret_result);
    bool (*host_free)(void *p, CUresult *ret_result);
    /* cuMemHostUnregister of what host_alloc gave answers as for the driver's own. */
    bool (*host_unregister)(void *p, CUresult *ret_result);
    /*
     * Before the driver's cuMemHostRegister: places the pages and changes nothing else. Of memory
     * that host_alloc gave it makes the call itself: the driver would know it as registered.
     */
    bool (*host_register)(void *p, size_t bytes, unsigned flags, CUresult *ret_result);
    /* After a successful cuMemHostGetFlags: what the driver would have said without us. */
    void (*host_flags)(const void *p, unsigned *flags);
    /* The same of CU_POINTER_ATTRIBUTE_MAPPING_SIZE. */
    void (*host_mapping)(const void *p, size_t *bytes);

    /* A large munmap: true if it is done, else it follows. NULL: nothing is done. */
    bool (*unmap)(void *at, size_t bytes);

    /*
     * Around what may end contexts: a context's destruction, a primary context's release or reset
     * (context NULL then, device given, or GF_ANY_DEVICE; else device is -1). `leaving` refuses new
     * work for it and lets running copies end; `left` tells how the driver's call went, and drops
     * what died.
     */
    void (*context_leaving)(CUcontext context, CUdevice device);
    void (*context_left)(CUcontext context, CUdevice device, CUresult result);
};

#endif
