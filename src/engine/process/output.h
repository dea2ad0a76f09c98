/* SPDX-License-Identifier: Apache-2.0 */
/* Takes samples and writes the report's file. */
#ifndef GF_ENGINE_PROCESS_OUTPUT_H
#define GF_ENGINE_PROCESS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads the locality of threads and pages and adds a sample to the report. The caller holds the
 * report lock.
 */
void gf_output_sample(bool final);

/*
 * Updates the report and writes its file. ended: at a normal exit. The caller holds the report
 * lock.
 */
void gf_output_report(bool ended);

/* Updates the report and writes the file of GPUFEED_METRICS. The caller holds the report lock. */
void gf_output_metrics(void);

/*
 * Called between two samples. Writes the file again if the program has done something since the
 * last write: every 5 s, on a network file system every 60 s. now: gf_now_ns(). Called on the
 * library's thread, without the report lock.
 */
void gf_output_renew(uint64_t now);

/*
 * gf_engine.report (abi/engine_api.h): the current report, in the form of the file. Any thread of
 * the program that does not hold the report lock.
 */
size_t gf_output_snapshot(char *buf, size_t size, unsigned wait_ms);

/* Warns of paths whose files would overwrite each other. Called at the start. */
void gf_output_check(void);

#endif
