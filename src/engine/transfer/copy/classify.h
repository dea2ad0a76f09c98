/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a copy may be staged, by what the driver reports about the memory on both sides.
 * Both functions may be called on any thread that has a current context. They return
 * gf_bypass_none, or the reason why the copy may not be staged.
 */
#pragma once

#include "abi/transfer_api.h"
#include "engine/transfer/stats.h"

/*
 * Checks the host side: its first byte must be pageable. Makes at most one driver call if the
 * function that the program called defines the direction, else at most two. *ret_direction is
 * always set. `cached`: the copy will not be staged, so the cached kind of its memory is enough
 * (classify.c).
 */
enum gf_bypass gf_classify_host(const struct gf_copy_call *call, bool cached,
                                enum gf_direction *ret_direction);

/*
 * Checks the last byte of the host side, which must be pageable, and the whole device side. Every
 * byte of the device side must be plain memory of `device`; the range may span several adjacent
 * mappings. If the driver refuses a copy, it writes no byte of it. A staged copy could write some
 * chunks before the driver refuses the next one. So this check must find every copy that the driver
 * would refuse.
 */
enum gf_bypass gf_classify_ends(const struct gf_copy_call *call, enum gf_direction direction,
                                CUdevice device);
