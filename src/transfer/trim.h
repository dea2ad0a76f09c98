/* SPDX-License-Identifier: Apache-2.0 */
/* What of a ring was long unused goes behind a free of the program's that has just waited for the context's work. */
#ifndef GF_TRANSFER_TRIM_H
#define GF_TRANSFER_TRIM_H

#include "transfer/setup.h"

/* gf_transfer_ops.host_free. */
bool gf_trim_behind_free(void *p, CUresult *ret_result);

#endif
