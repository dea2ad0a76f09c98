/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of checks.def. Each adds its findings to ret and does not change the machine. */
#ifndef GF_CLI_DOCTOR_CHECKS_H
#define GF_CLI_DOCTOR_CHECKS_H

#include "cli/doctor/finding.h"

typedef void gf_check(const struct gf_check_input *input, struct gf_findings *ret);

#define GF_CHECK(token, name, reads, why, page, ...) gf_check gf_check_##token;
#include "tools/doctor/checks.def"

#endif
