/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/unlisted.h"

/* Direct-mapped; a collision overwrites. In the static TLS block, so that no access allocates. */
static __thread
    __attribute__((tls_model("initial-exec"))) struct gf_unlisted unlisted[GF_UNLISTED_STREAMS];

static struct gf_unlisted *entry_of(CUstream stream)
{
    return &unlisted[((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15) >> 40) %
                     GF_UNLISTED_STREAMS];
}

const struct gf_unlisted *gf_unlisted_find(CUstream stream, unsigned epoch)
{
    struct gf_unlisted *entry = entry_of(stream);

    return entry->stream == stream && entry->epoch == epoch && entry->looked++ < GF_UNLISTED_RETRY
               ? entry
               : NULL;
}

void gf_unlisted_add(CUstream stream, unsigned epoch, int device)
{
    *entry_of(stream) = (struct gf_unlisted){.stream = stream, .device = device, .epoch = epoch};
}
