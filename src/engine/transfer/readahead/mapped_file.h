/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that copies read through mappings: how much the program has read of each, and which
 * bytes were read ahead and have not been copied yet. All ranges are offsets in the file.
 *
 * Any thread. One lock, under which nothing but the clock is called.
 */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_MAPPED_FILE_H
#define GF_ENGINE_TRANSFER_READAHEAD_MAPPED_FILE_H

#include "base/base.h"

struct gf_mapped_file_id {
    uint64_t inode;
    uint32_t major, minor;
};

struct gf_range {
    uint64_t start, end;
};

enum gf_mapped_file_answer {
    /* Do not read ahead: not allowed, or the file system is being looked up. */
    gf_mapped_file_no,
    gf_mapped_file_yes, /* read ahead; *ret is set */
    /* The caller must have the file system looked up: gf_mapped_files_look_up. */
    gf_mapped_file_unknown,
};

/*
 * A copy of these bytes begins; they count as read. Sets *ret to the range to read ahead. The range
 * contains the copy's own bytes, except those at its start that were read ahead before. If the copy
 * continues an earlier copy of the file, the range also contains a window after the copy. The
 * window is at most as long as all bytes that copies have read of the file. It is shorter if the
 * bytes read ahead and not copied would otherwise exceed both GF_TUNE_READAHEAD_UNREAD and a part
 * of the bytes read. After gf_mapped_file_yes the caller calls gf_mapped_file_end.
 */
enum gf_mapped_file_answer gf_mapped_file_begin(const struct gf_mapped_file_id *id,
                                                const struct gf_range *copy, struct gf_range *ret);

/*
 * The bytes from the copy's end to `reached` were read ahead. `ahead` is the range that
 * gf_mapped_file_begin returned. `is_cached`: all sampled pages were in the page cache, so for the
 * file's next copies nothing is read ahead.
 */
void gf_mapped_file_end(const struct gf_mapped_file_id *id, const struct gf_range *copy,
                        const struct gf_range *ahead, uint64_t reached, bool is_cached);

/* Looks up all file systems that are unknown. Not under the lock, so allows() may open files. */
void gf_mapped_files_look_up(bool (*allows)(unsigned major, unsigned minor));

/*
 * Sums for the report: the bytes that were read ahead of copies, and how many of them were copied
 * later.
 */
struct gf_mapped_files_count {
    uint64_t files; /* number of files in which bytes were read ahead */
    uint64_t ahead, used;
};
void gf_mapped_files_count(struct gf_mapped_files_count *ret);

#endif
