/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that copies read through mappings. For each file: how many bytes copies have read, and
 * which bytes were read ahead and have not been copied yet. All ranges are offsets in the file.
 *
 * All functions may be called on any thread. They share one lock, under which they only read the
 * clock.
 */
#pragma once

#include "base/base.h"

struct gf_mapped_file_id {
    uint64_t inode;
    uint32_t major, minor;
};

struct gf_range {
    uint64_t start, end;
};

enum gf_mapped_file_answer {
    /*
     * Do not read ahead: read-ahead is not allowed, would gain nothing at present, or the file
     * system is being looked up.
     */
    gf_mapped_file_no,
    gf_mapped_file_yes, /* read ahead; *ret is set */
    /* Do not read ahead. The caller must arrange a call of gf_mapped_files_look_up. */
    gf_mapped_file_unknown,
};

/*
 * Called when a copy of these bytes begins; the bytes count as read. Sets *ret to the range to read
 * ahead. The range contains the copy's own bytes, except those at the copy's start that were read
 * ahead before. If the copy continues an earlier copy of the file, the range also contains a window
 * after the copy. The window is at most as long as all bytes that copies have read of the file. It
 * is shorter if the bytes that were read ahead but not copied would otherwise exceed the limit of
 * GF_TUNE_READAHEAD_UNREAD (tuning.h). After gf_mapped_file_yes the caller calls
 * gf_mapped_file_end.
 */
enum gf_mapped_file_answer gf_mapped_file_begin(const struct gf_mapped_file_id *id,
                                                const struct gf_range *copy, struct gf_range *ret);

/*
 * Called when read-ahead for a copy has ended. The bytes from the copy's end to `reached` were read
 * ahead. `ahead` is the range that gf_mapped_file_begin returned. `is_cached`: all sampled pages
 * were in the page cache, so nothing is read ahead for the next copies of the file.
 */
void gf_mapped_file_end(const struct gf_mapped_file_id *id, const struct gf_range *copy,
                        const struct gf_range *ahead, uint64_t reached, bool is_cached);

/*
 * Calls allows() for each file system for which the answer is unknown, and stores the answers. Does
 * not hold the lock during allows(), which may open files.
 */
void gf_mapped_files_look_up(bool (*allows)(unsigned major, unsigned minor));
