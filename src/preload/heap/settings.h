/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's settings. The library passes the settings by jemalloc's symbol malloc_conf. The
 * library does not use the environment for that, because child processes and other copies of
 * jemalloc would read the settings there. A user's MALLOC_CONF overrides each setting.
 */
#ifndef GF_PRELOAD_HEAP_SETTINGS_H
#define GF_PRELOAD_HEAP_SETTINGS_H

#include "abi/heap_api.h"
#include "config/startup_env.h"

/* Called once, before jemalloc's first call. */
void gf_settings_apply(const struct gf_startup_env *startup);

/*
 * Called once, after jemalloc has started. Makes jemalloc align blocks of up to 8 bytes to 16
 * bytes.
 */
void gf_settings_align_tiny(void);

/*
 * Whether the decay times in force are set by the library, and not by a user. Call this after
 * jemalloc has started.
 */
bool gf_settings_decay_is_ours(void);

/* gf_heap_ops.setting */
bool gf_settings_read(size_t i, struct gf_heap_setting *ret);

#endif
