/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the report's section "heap": the heap's settings and counters, its pages by node, and the
 * memory watch.
 */
#ifndef GF_ENGINE_REPORT_REPORT_MEMORY_H
#define GF_ENGINE_REPORT_REPORT_MEMORY_H

#include "base/json.h"
#include "engine/report/report_data.h"

void gf_report_memory_put(struct gf_json *json, const struct gf_report *report);

/* Writes an object with the numbers of bytes by node. */
void gf_report_memory_put_pages(struct gf_json *json, const char *key,
                                const struct gf_pages *pages);

#endif
