/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints lines for the user on standard error. Each line is one write(2) and begins with "gpufeed:
 * ". A process that has not reached CUDA prints nothing: the level starts at GF_LOG_SILENT, and the
 * engine or the command raises it.
 *
 * Beside the level, GPUFEED_DEBUG names areas. Lines of a named area appear at every level but
 * GF_LOG_SILENT. They explain decisions, so they are printed where a decision is counted, never on
 * a fast path.
 */
#ifndef GF_BASE_LOG_H
#define GF_BASE_LOG_H

#include "base/base.h"
#include "base/log_areas.h"

enum gf_log_level {
    GF_LOG_SILENT = 0,
    GF_LOG_WARN,  /* something the user asked for was not done, or a setting is wrong */
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
 * The process that later lines name after "gpufeed: ", such as "rank 3", where several processes
 * print. Called once, by the only thread that prints.
 */
void gf_log_set_process(const char *name);
void gf_log_set_areas(unsigned bits); /* Bit n enables the n-th area. */
bool gf_log_wants_area(enum gf_log_area area);

/* Prints a line. Keeps errno; cuts a line at 1 KiB. */
void gf_log(enum gf_log_level level, const char *format, ...) GF_PRINTF(2, 3);

/* The same for a line of an area: "gpufeed: copy: ...". */
void gf_log_explain(enum gf_log_area area, const char *format, ...) GF_PRINTF(2, 3);

#define gf_warn(...) gf_log(GF_LOG_WARN, __VA_ARGS__)
#define gf_info(...) gf_log(GF_LOG_INFO, __VA_ARGS__)
#define gf_debug(...) gf_log(GF_LOG_DEBUG, __VA_ARGS__)

#endif
