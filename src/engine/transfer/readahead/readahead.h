/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-ahead: while a copy reads a mapped file, helpers make the kernel read the file's next pages
 * into the page cache. They call MADV_WILLNEED on the program's own mapping. Helpers change no byte
 * and no mapping, and open no file. The kernel may still read after the call has returned.
 *
 * When the copy returns, no helper is inside such a call. So no such call is in progress during a
 * later munmap, mremap, or mmap with MAP_FIXED, and no reference to the file outlives the mapping.
 * During the copy the program must keep the mapping, because the copy reads it.
 */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_READAHEAD_H
#define GF_ENGINE_TRANSFER_READAHEAD_READAHEAD_H

#include "engine/transfer/stats.h"

/*
 * Begins read-ahead for a copy of this memory. Returns a number that identifies this read-ahead for
 * the functions below. Returns 0 if nothing is read ahead: the option is off, no helper runs, the
 * memory is not in one mapping of a suitable file, or too many copies already use read-ahead.
 * Called on the thread that copies.
 */
unsigned gf_readahead_begin(const void *at, size_t bytes);

/*
 * Called when the copy has read its first `bytes` bytes, or is about to read them. Lets helpers
 * read further ahead.
 */
void gf_readahead_advance(unsigned readahead, size_t bytes);

/*
 * Ends read-ahead. Waits for calls of madvise that helpers have begun. If `readahead` is 0, does
 * nothing.
 */
void gf_readahead_end(unsigned readahead);

/* Looks up for which file systems read-ahead is allowed. Called on the library's own thread. */
void gf_readahead_prepare(void);

void gf_readahead_count(struct gf_readahead_count *ret);

#endif
