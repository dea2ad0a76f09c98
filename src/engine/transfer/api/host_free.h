/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the program's frees of pinned memory, and finds which calls wait for the context's work.
 * After a call that waited, unused segments of the context's ring are removed.
 */
#ifndef GF_ENGINE_TRANSFER_API_HOST_FREE_H
#define GF_ENGINE_TRANSFER_API_HOST_FREE_H

#include "base/base.h"
#include "abi/cuda.h"

/* The member host_free of struct gf_transfer_ops. */
bool gf_host_free(void *p, CUresult *ret_result);

/* The member device_free_waits of struct gf_transfer_ops. */
bool gf_device_free_waits(CUdeviceptr p);

/* The member waited of struct gf_transfer_ops. */
void gf_host_waited(void);

#endif
