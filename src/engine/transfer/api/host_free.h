/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees of pinned memory, and other calls that have waited for the context's work. After such a
 * call, an idle ring is shrunk.
 */
#ifndef GF_ENGINE_TRANSFER_API_HOST_FREE_H
#define GF_ENGINE_TRANSFER_API_HOST_FREE_H

#include "base/base.h"
#include "abi/cuda.h"

/* gf_transfer_ops.host_free. */
bool gf_host_free(void *p, CUresult *ret_result);

/* gf_transfer_ops.waited. */
void gf_host_waited(void);

#endif
