/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether to prefault memory of the program before the program registers it. The functions
 * may be called on any thread.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_PREFAULT_H
#define GF_ENGINE_TRANSFER_PINNED_PREFAULT_H

#include "base/base.h"

/*
 * Whether prefaulting pays and is harmless: most of the pages are absent, and the whole range is
 * anonymous, private and writable. Touches no page.
 */
bool gf_prefault_pays(const void *at, size_t bytes);

/*
 * Whether the whole range is anonymous, private and writable. Reads `file`, which has the format of
 * /proc/self/maps.
 */
bool gf_prefault_is_plain(const char *file, uintptr_t start, uintptr_t end);

#endif
