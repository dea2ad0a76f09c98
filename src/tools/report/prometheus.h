/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"

#include <stdio.h>

/*
 * Writes metrics of each process in Prometheus's text format, for node_exporter's textfile
 * collector. Names contain the unit; lines have labels, but no timestamps.
 */
void gf_prometheus_write(FILE *out, const struct gf_answer *answer);
