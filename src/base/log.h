/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints lines for the user on standard error. Each line begins with "gpufeed:", and is written by
 * one write(2). The level starts at GF_LOG_SILENT. Only the command raises it, and the library
 * after the first successful cuInit. So the library prints nothing in a process that does not use
 * CUDA.
 *
 * GPUFEED_DEBUG also names areas. Lines of these areas appear at every level except GF_LOG_SILENT.
 * They explain decisions, and are never printed on a fast path.
 */
#ifndef GF_BASE_LOG_H
#define GF_BASE_LOG_H

#include "base/base.h"
#include "base/log_areas.h"

#include <sys/types.h>

enum gf_log_level {
    GF_LOG_SILENT = 0,
    GF_LOG_WARN,  /* a request of the user failed, or a setting is invalid */
    GF_LOG_INFO,  /* GPUFEED_VERBOSE=1: the verdict, the summary */
    GF_LOG_DEBUG, /* GPUFEED_VERBOSE=2 */
};

enum gf_log_area {
#define GF_LOG_AREA(token, word) gf_log_area_##word,
    GF_LOG_AREAS(GF_LOG_AREA)
#undef GF_LOG_AREA
};

/*
 * Sets the level. Any thread, any time. Each copy of base (preload library, engine, command) has
 * its own level.
 */
void gf_log_set_level(enum gf_log_level level);
bool gf_log_wants(enum gf_log_level level);
/*
 * Names the file that descriptor 2 had at the start. If the descriptor has another file that may be
 * data of the program, lines are dropped.
 */
void gf_log_expect_stderr(dev_t device, ino_t inode);
/*
 * Sets the name of this process, such as "rank 3", which later lines contain after "gpufeed: ".
 * Called once, by the only thread that prints.
 */
void gf_log_set_process(const char *name);
void gf_log_set_areas(unsigned bits); /* Bit n enables the n-th area. */
bool gf_log_wants_area(enum gf_log_area area);

/* Prints a line. Keeps errno; cuts a line at 1 KiB. */
void gf_log(enum gf_log_level level, const char *format, ...) GF_PRINTF(2, 3);

/* Prints a line of an area: "gpufeed: copy: ...". */
void gf_log_explain(enum gf_log_area area, const char *format, ...) GF_PRINTF(2, 3);

#define gf_warn(...) gf_log(GF_LOG_WARN, __VA_ARGS__)
#define gf_info(...) gf_log(GF_LOG_INFO, __VA_ARGS__)
#define gf_debug(...) gf_log(GF_LOG_DEBUG, __VA_ARGS__)

#endif
