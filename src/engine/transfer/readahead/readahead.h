/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run-ahead: while a copy reads a mapped file, helpers let the kernel read the file's next pages
 * into the page cache, by MADV_WILLNEED through the program's own mapping. Helpers change no byte
 * and no mapping, and open no file. The kernel may still read after the call has returned.
 *
 * No helper is inside such a call when the copy returns. So a later munmap, mremap or mmap with
 * MAP_FIXED overlaps no such call, and no reference to the file outlives the mapping. During the
 * copy the program keeps the mapping, because the copy reads it.
 */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_READAHEAD_H
#define GF_ENGINE_TRANSFER_READAHEAD_READAHEAD_H

#include "engine/transfer/stats/copy_stats.h"

/*
 * Begins run-ahead for a copy of this memory. Returns a number for the functions below, or 0
 * without run-ahead: by option, if no helper runs, if the memory is not in one mapping of a file
 * that may be read ahead, or if too many copies have run-ahead now. Called on the thread that
 * copies.
 */
unsigned gf_readahead_begin(const void *at, size_t bytes);

/* The copy has read its first `bytes` bytes, or is about to read them. */
void gf_readahead_advance(unsigned readahead, size_t bytes);

/* Ends run-ahead. Waits for calls of madvise that helpers have begun. For 0, does nothing. */
void gf_readahead_end(unsigned readahead);

/* Looks up which files may be read ahead. Called on the library's own thread. */
void gf_readahead_prepare(void);

void gf_readahead_count(struct gf_readahead_count *ret);

#endif
