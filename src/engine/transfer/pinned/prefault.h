/* SPDX-License-Identifier: Apache-2.0 */
/* Whether to prefault memory of the program before the program registers it. Any thread. */
#ifndef GF_ENGINE_TRANSFER_PINNED_PREFAULT_H
#define GF_ENGINE_TRANSFER_PINNED_PREFAULT_H

#include "base/base.h"

/*
 * Whether prefaulting pays and is harmless: most of the pages are absent, and the whole range is
 * anonymous, private and writable. Touches no page.
 */
bool gf_prefault_pays(const void *at, size_t bytes);

/*
 * Whether the whole range is anonymous, private and writable, by a file in the format of
 * /proc/self/maps.
 */
bool gf_prefault_is_plain(const char *file, uintptr_t start, uintptr_t end);

#endif
