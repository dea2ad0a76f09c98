/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a copy may be staged, by the driver's description of the memory on both sides. Any
 * thread, with a current context. Both functions return gf_bypass_none, or the reason why the copy
 * may not be staged.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_CLASSIFY_H
#define GF_ENGINE_TRANSFER_COPY_CLASSIFY_H

#include "abi/transfer_api.h"
#include "engine/transfer/stats/copy_stats.h"

/*
 * The first byte of the host end must be pageable. Makes at most one driver call if the entry point
 * names the direction, else at most two. *ret_direction is always set. `cached`: the copy will not
 * be staged, so the cached kind of its memory is enough (pointer_cache.h).
 */
enum gf_bypass gf_classify_host(const struct gf_copy_call *call, bool cached,
                                enum gf_direction *ret_direction);

/*
 * The last byte of the host end must be pageable. Every byte of the device end must be plain memory
 * of `device`; it may span several adjacent mappings. A copy that the driver refuses writes
 * nothing, so this check must find every copy that the driver would refuse.
 */
enum gf_bypass gf_classify_ends(const struct gf_copy_call *call, enum gf_direction direction,
                                CUdevice device);

#endif
