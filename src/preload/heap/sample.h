/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times a few calls of malloc from time to time. While calls are timed, the heap's mode is
 * gf_heap_mode_sampled, whose functions time each call. At other times sampling costs nothing,
 * because each call tests the mode anyway.
 */
#pragma once

#include "preload/heap/family.h"

/* gf_heap_ops.sample */
void gf_sample_start(unsigned calls);

/* Returns the functions that serve malloc in the mode gf_heap_mode_sampled. */
const struct gf_family *gf_sample_family(void);
