/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool that calls CUDA inside CUPTI's callbacks; the driver loads it by CUDA_INJECTION64_PATH. At
 * the beginning or the end of some of the program's copy calls, the tool makes pageable copies in
 * both directions. If their bytes are wrong, it ends the process with code 5. GF_CUPTI names CUPTI's
 * library. The types of CUPTI are declared here, so that its headers are not needed.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER_API 1
#define COPIED ((size_t)4 << 20)

struct callback_data { /* CUpti_CallbackData */
    int site;          /* 0: enter, 1: exit */
    const char *function;
    const void *params;
    void *result;
    const char *symbol;
    CUcontext context;
    uint32_t context_uid;
    uint64_t *correlation_data;
    uint32_t correlation;
};

typedef void callback_fn(void *, int domain, uint32_t id, const struct callback_data *);

int InitializeInjection(void);

static __typeof__(cuMemAlloc_v2) *mem_alloc;
static __typeof__(cuMemcpyHtoD_v2) *to_device;
static __typeof__(cuMemcpyDtoH_v2) *to_host;
static __typeof__(cuStreamIsCapturing) *is_capturing;
static atomic_uint seen, copied;
static _Thread_local int inside;
static _Thread_local CUdeviceptr device;
static _Thread_local unsigned char *sent, *back;

static void copies(void)
{
    const unsigned value = atomic_fetch_add(&copied, 1) % 251;
    if (!device && mem_alloc(&device, COPIED) == CUDA_SUCCESS) {
        sent = malloc(COPIED);
        back = malloc(COPIED);
    }
    if (!sent || !back)
        return;
    memset(sent, (int)value, COPIED);
    memset(back, 255, COPIED);
    if (to_device(device, sent, COPIED) || to_host(back, device, COPIED) ||
        memcmp(sent, back, COPIED)) {
        fprintf(stderr, "cupti_copies: wrong bytes\n");
        _exit(5);
    }
}

static void called(void *closure, int domain, uint32_t id, const struct callback_data *data)
{
    (void)closure, (void)id;
    if (domain != DRIVER_API || inside || strncmp(data->function, "cuMemcpy", 8) != 0)
        return;
    inside = 1;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_fetch_add(&seen, 1) % 5 == 0 &&
        is_capturing(CU_STREAM_LEGACY, &status) == CUDA_SUCCESS &&
        status == CU_STREAM_CAPTURE_STATUS_NONE)
        copies();
    inside = 0;
}

__attribute__((destructor)) static void tell(void)
{
    fprintf(stderr, "cupti_copies: saw %u copies, made %u\n", seen, copied);
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    void *cupti = dlopen(getenv("GF_CUPTI"), RTLD_NOW), *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *subscriber;
    if (!cupti || !cuda) {
        fprintf(stderr, "cupti_copies: %s\n", dlerror());
        return 0;
    }
    int (*subscribe)(void **, callback_fn *, void *) =
        (int (*)(void **, callback_fn *, void *))dlsym(cupti, "cuptiSubscribe");
    int (*enable)(uint32_t, void *, int) =
        (int (*)(uint32_t, void *, int))dlsym(cupti, "cuptiEnableDomain");
    mem_alloc = (__typeof__(mem_alloc))dlsym(cuda, "cuMemAlloc_v2");
    to_device = (__typeof__(to_device))dlsym(cuda, "cuMemcpyHtoD_v2");
    to_host = (__typeof__(to_host))dlsym(cuda, "cuMemcpyDtoH_v2");
    is_capturing = (__typeof__(is_capturing))dlsym(cuda, "cuStreamIsCapturing");
    if (!subscribe || !enable || !mem_alloc || !to_device || !to_host || !is_capturing)
        return 0;
    if (subscribe(&subscriber, called, NULL) == 0 && enable(1, subscriber, DRIVER_API) == 0)
        fprintf(stderr, "cupti_copies: watching\n");
    return 1;
}
