/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions for copies in struct gf_transfer_ops: copy, copy_declined and copy_fits.
 * abi/transfer_api.h describes them.
 */
#pragma once

#include "abi/transfer_api.h"

bool gf_copy_ops_copy(const struct gf_copy_call *call, CUresult *ret_result,
                      struct gf_copy_refusal *ret_refusal, struct gf_copy_wait *ret_wait);
void gf_copy_ops_declined(const struct gf_copy_call *call, const struct gf_copy_refusal *refusal,
                          uint64_t ns);
bool gf_copy_ops_fits(const struct gf_copy_call *call);
