/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of GPUFEED_REPORT: writes it, and knows when it is out of date. The caller holds the
 * report lock, except in gf_report_file_is_due.
 */
#ifndef GF_ENGINE_PROCESS_REPORT_FILE_H
#define GF_ENGINE_PROCESS_REPORT_FILE_H

#include "engine/report/report_data.h"

/*
 * Replaces the file. Prints one line if that fails, and none for further failures until a write
 * succeeds.
 */
void gf_report_file_write(const struct gf_report *report);

/*
 * Whether the file is old enough to be replaced between samples: 5 s, on a network file system 60
 * s. Never if the path is a device or a pipe, because reports are appended there. Called on the
 * library's thread.
 */
bool gf_report_file_is_due(uint64_t now);

/* Whether the program used the GPU, or a sample of GPU time was taken, since the file was written. */
bool gf_report_file_is_news(const struct gf_report *report);

#endif
