/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's settings, passed by its compiled-in symbol malloc_conf. The environment is not used:
 * child processes and other embedded jemallocs read it. Each setting in a user's MALLOC_CONF
 * overrides the setting here.
 */
#ifndef GF_PRELOAD_HEAP_SETTINGS_H
#define GF_PRELOAD_HEAP_SETTINGS_H

#include "abi/heap_api.h"
#include "config/startup_env.h"

/* Called once, before jemalloc's first call. */
void gf_settings_apply(const struct gf_startup_env *startup);

/* Called once, after jemalloc has started. Aligns blocks of up to 8 bytes to 16. */
void gf_settings_align_tiny(void);

/*
 * Whether the decay times are those set here, not those of a user. Valid after jemalloc has
 * started.
 */
bool gf_settings_decay_is_ours(void);

/* gf_heap_ops.setting */
bool gf_settings_read(size_t i, struct gf_heap_setting *ret);

#endif
