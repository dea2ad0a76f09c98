/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions in an ELF file, for stacks stored in a log as objects and offsets. */
#ifndef GF_CLI_REPORT_INPUT_ELFSYM_H
#define GF_CLI_REPORT_INPUT_ELFSYM_H

#include "base/base.h"

struct gf_elfsym;

/*
 * Opens the file if its build id is build_id, in hexadecimal; "" accepts any. NULL if the file is
 * missing, of another build or not ELF.
 */
struct gf_elfsym *gf_elfsym_open(const char *path, const char *build_id);
void gf_elfsym_close(struct gf_elfsym *file);

/* The function that covers the offset, and the offset within it; NULL if no function does. */
const char *gf_elfsym_function(const struct gf_elfsym *file, uint64_t offset,
                               uint64_t *ret_distance);

#endif
