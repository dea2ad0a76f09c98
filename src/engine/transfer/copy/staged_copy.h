/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/transfer/copy/pipeline.h"
#include "engine/transfer/stats.h"

/* Staged copies from pageable memory to a device. */

/*
 * Returns gf_bypass_none and sets *ret if the copy was staged. Else returns the reason why the
 * driver must copy all bytes; in that case no DMA was issued.
 */
enum gf_bypass gf_h2d_stage(const struct gf_stage_request *request, struct gf_stage_result *ret);

/* Staged copies from a device to pageable memory. */

/*
 * Returns gf_bypass_none and sets *ret if the copy was staged. Else returns the reason why the
 * driver must copy all bytes; some bytes may already be in the program's memory.
 */
enum gf_bypass gf_d2h_stage(const struct gf_stage_request *request, struct gf_stage_result *ret);
