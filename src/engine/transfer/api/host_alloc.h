/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the program's allocations of pinned memory. */
#ifndef GF_ENGINE_TRANSFER_API_HOST_ALLOC_H
#define GF_ENGINE_TRANSFER_API_HOST_ALLOC_H

#include "abi/transfer_api.h"

/* See host_alloc in transfer_api.h. */
bool gf_host_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result);

#endif
