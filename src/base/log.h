/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the user, on standard error, each by one write(2) and beginning with "gpufeed: ".
 * Nothing is said in a process that has not reached CUDA (harmless first): the level starts at
 * GF_LOG_SILENT, and the engine or the command raises it.
 */
#ifndef GF_BASE_LOG_H
#define GF_BASE_LOG_H

#include "base/base.h"

enum gf_log_level {
    GF_LOG_SILENT = 0,
    GF_LOG_WARN,  /* something the user asked for was not done, or a setting is wrong */
    GF_LOG_INFO,  /* GPUFEED_VERBOSE=1: the verdict, the summary */
    GF_LOG_DEBUG, /* GPUFEED_VERBOSE=2 */
};

/* Any thread, any time. Each copy of base (door, engine, command) has a level of its own. */
void gf_log_set_level(enum gf_log_level level);
bool gf_log_wants(enum gf_log_level level);

/* Keeps errno; cuts a line at 1 KiB. */
void gf_log(enum gf_log_level level, const char *format, ...) GF_PRINTF(2, 3);

#define gf_warn(...) gf_log(GF_LOG_WARN, __VA_ARGS__)
#define gf_info(...) gf_log(GF_LOG_INFO, __VA_ARGS__)
#define gf_debug(...) gf_log(GF_LOG_DEBUG, __VA_ARGS__)

#endif
