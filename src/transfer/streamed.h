/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying into the ring, which the device reads next and no processor again: with stores that do
 * not fetch the lines they overwrite, which lie modified in the cache of whoever filled them last.
 * Two threads are a third faster so, eight a tenth; with whole lines at once, where the processor has
 * such registers, another tenth. What is copied out of the ring is wanted by the program next: memcpy.
 */
#ifndef GF_TRANSFER_STREAMED_H
#define GF_TRANSFER_STREAMED_H

#include <stddef.h>

/* `to` is aligned to 64 bytes. Any thread. The device may be told of it afterwards. */
void gf_stream_copy(char *to, const char *from, size_t bytes);

#endif
