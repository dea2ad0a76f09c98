/* SPDX-License-Identifier: Apache-2.0 */
/* Heap and kept memory. */
#pragma once

#include "base/json.h"
#include "engine/report/report_data.h"

/*
 * Writes the report's section "heap": the heap's settings and counters, its pages by node, and the
 * memory watch.
 */
void gf_report_memory_put(struct gf_json *json, const struct gf_report *report);

/* Writes an object with the numbers of bytes by node. */
void gf_report_memory_put_pages(struct gf_json *json, const char *key,
                                const struct gf_pages *pages);

/*
 * Writes the report's section "kept": all memory that the library holds and the program does not
 * use.
 */
void gf_report_kept_put(struct gf_json *json, const struct gf_report *report);
/* Computes the sum of that section. */
uint64_t gf_report_kept_bytes(const struct gf_report *report);
