/* SPDX-License-Identifier: Apache-2.0 */
/* What a copy's addresses are, as the driver tells: whether it may be staged at all. */
#ifndef GF_TRANSFER_CLASSIFY_H
#define GF_TRANSFER_CLASSIFY_H

#include "hook/transfer_api.h"
#include "transfer/stats.h"

enum gf_memory { gf_memory_pageable, gf_memory_device, gf_memory_other, gf_memory_unknown };

/*
 * One end: one question to the driver for memory that is pinned. True when the host's side is
 * plainly pageable at its first byte, with the direction (of a unified entry too); else why not.
 * counts: the copy is the driver's and is only counted, so what was said of that memory lately will do (recall.h).
 */
bool gf_classify_host(const struct gf_copy_call *call, bool counts, enum gf_direction *ret_direction,
                      enum gf_forward *ret_why);

/*
 * The rest: the last byte of the host's side, and every byte of the device's, which may span
 * several mappings laid side by side. A native failure writes nothing, so what the driver would
 * refuse must be found here.
 */
bool gf_classify_ends(const struct gf_copy_call *call, enum gf_direction direction,
                      CUdevice device, enum gf_forward *ret_why);

#endif
