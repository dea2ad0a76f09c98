/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_DOCTOR_DOCTOR_H
#define GF_CLI_DOCTOR_DOCTOR_H

#include "cli/doctor/finding.h"

/* Runs all checks, in the order of checks.def. */
void gf_doctor_run(const struct gf_check_input *input, struct gf_findings *ret);

#endif
