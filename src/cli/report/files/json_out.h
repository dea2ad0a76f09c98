/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_FILES_JSON_OUT_H
#define GF_CLI_REPORT_FILES_JSON_OUT_H

#include <stdio.h>

/* Writes a text of a job as a JSON string. Such texts contain no control characters. */
void gf_json_out_text(FILE *out, const char *text);

#endif
