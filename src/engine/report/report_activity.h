/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What GPUs and copies did since the last call, for the event log: the GPU's time by state, sums of
 * copies, and the longest copies.
 */
#ifndef GF_ENGINE_REPORT_REPORT_ACTIVITY_H
#define GF_ENGINE_REPORT_REPORT_ACTIVITY_H

#include "base/json.h"

/* Adds the fields to an object. False if nothing happened. One thread at a time. */
bool gf_report_activity_put(struct gf_json *json);

#endif
