/* SPDX-License-Identifier: Apache-2.0 */
/* Staged copies from pageable memory to a device. */
#ifndef GF_ENGINE_TRANSFER_COPY_H2D_H
#define GF_ENGINE_TRANSFER_COPY_H2D_H

#include "engine/transfer/copy/pipeline.h"
#include "engine/transfer/stats.h"

/*
 * Returns gf_bypass_none and sets *ret if the copy was staged. Else returns the reason why the
 * driver must copy all bytes; in that case no DMA was issued.
 */
enum gf_bypass gf_h2d_stage(const struct gf_stage_request *request, struct gf_stage_result *ret);

#endif
