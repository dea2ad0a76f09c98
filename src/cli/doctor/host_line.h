/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the first line of a small file of the checked machine, as text or as a number. */
#ifndef GF_CLI_DOCTOR_HOST_LINE_H
#define GF_CLI_DOCTOR_HOST_LINE_H

#include "cli/doctor/finding.h"

/*
 * Reads the first line of a file; `format` gives its path below the root. Returns false if the file
 * is missing or the line is empty.
 */
bool gf_host_line(const struct gf_check_input *input, char *ret, size_t size, const char *format,
                  ...) GF_PRINTF(4, 5);
/* Reads the first line of a file as a number. Returns false if it is not a number of at least 0. */
bool gf_host_number(const struct gf_check_input *input, long *ret, const char *format, ...)
    GF_PRINTF(3, 4);

/*
 * Returns the CPUs that the process may use, or all online CPUs if a recording lacks the process's
 * mask.
 */
const struct gf_cpus *gf_host_cpus(const struct gf_check_input *input);

#endif
