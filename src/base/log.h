/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints lines for the user on standard error. Each line begins with "gpufeed:", and is written by
 * one write(2). The level starts at GF_LOG_SILENT. The library raises the level only after the
 * first successful cuInit, or at the exit of the process that `gpufeed run` started. So
 * the library prints nothing in any other process that does not use CUDA.
 *
 * GPUFEED_DEBUG enables areas. The lines of an enabled area appear at every level except
 * GF_LOG_SILENT. They explain decisions, and are never printed on a fast path.
 */
#pragma once

#include "base/base.h"
#include "base/log_areas.h"

enum gf_log_level {
    GF_LOG_SILENT = 0,
    GF_LOG_WARN,  /* something that the user requested failed, or a setting is invalid */
    GF_LOG_INFO,  /* GPUFEED_VERBOSE=1: the verdict, the summary */
    GF_LOG_DEBUG, /* GPUFEED_VERBOSE=2 */
};

enum gf_log_area {
#define GF_LOG_AREA(token, word) gf_log_area_##word,
    GF_LOG_AREAS(GF_LOG_AREA)
#undef GF_LOG_AREA
};

/*
 * Sets the level. It may be called on any thread at any time. The preload library, the engine and
 * the command each contain a copy of base, and each copy has its own level.
 */
void gf_log_set_level(enum gf_log_level level);
bool gf_log_wants(enum gf_log_level level);
/*
 * Sets the identity of the file that descriptor 2 referred to at the start. If the descriptor later
 * refers to a file that may contain data of the program, lines are dropped.
 */
void gf_log_expect_stderr(dev_t device, ino_t inode);
/*
 * Sets the name of this process, such as "rank 3". Later lines contain the name after "gpufeed: ".
 * Must be called at most once, while no other thread prints.
 */
void gf_log_set_process(const char *name);
void gf_log_set_areas(unsigned bits); /* Bit n enables the n-th area. */
bool gf_log_wants_area(enum gf_log_area area);

/* Prints a line, truncated to 1 KiB. Keeps errno. */
void gf_log(enum gf_log_level level, const char *format, ...) GF_PRINTF(2, 3);

/* Prints a line of an area: "gpufeed: copy: ...". */
void gf_log_explain(enum gf_log_area area, const char *format, ...) GF_PRINTF(2, 3);

#define gf_warn(...) gf_log(GF_LOG_WARN, __VA_ARGS__)
#define gf_info(...) gf_log(GF_LOG_INFO, __VA_ARGS__)
#define gf_debug(...) gf_log(GF_LOG_DEBUG, __VA_ARGS__)
