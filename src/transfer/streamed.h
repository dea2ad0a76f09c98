/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying into the ring, which the device reads next and no processor again: with stores that do
 * not fetch the lines they overwrite, which lie modified in the cache of whoever filled them last.
 * Two threads are a third faster so, eight a tenth; with whole lines at once, where the processor has
 * such registers, another tenth. What is copied out of the ring is wanted by the program next: memcpy.
 *
 * What many threads write so, memory has to take in and give out again at once, and that is what bounds large
 * copies. They leave it in the cache that all processors share, where the device finds it: each thread is
 * slower at it, all together a tenth faster. In the writer's own cache it must not stay: from there the device
 * reads at a third of its speed.
 */
#ifndef GF_TRANSFER_STREAMED_H
#define GF_TRANSFER_STREAMED_H

#include <stdbool.h>
#include <stddef.h>

/* `to` is aligned to 64 bytes. Any thread. The device may be told of it afterwards. */
void gf_stream_copy(char *to, const char *from, size_t bytes);

/* The same, into the shared cache; where the processor cannot (CLDEMOTE), as the other. */
void gf_demote_copy(char *to, const char *from, size_t bytes);
bool gf_demote_is_possible(void);

#endif
