/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes for the event log what GPUs and copies did since the last call: each GPU's time by state,
 * sums of copies, and the longest copies.
 */
#ifndef GF_ENGINE_REPORT_REPORT_ACTIVITY_H
#define GF_ENGINE_REPORT_REPORT_ACTIVITY_H

#include "base/json.h"

/*
 * Adds the fields to a JSON object. Returns false if nothing has happened since the last call. Only
 * one thread at a time may call this function.
 */
bool gf_report_activity_put(struct gf_json *json);

#endif
