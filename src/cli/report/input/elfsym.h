/* SPDX-License-Identifier: Apache-2.0 */
/* Finds function names in ELF files. A log stores native frames as an object and an offset. */
#ifndef GF_CLI_REPORT_INPUT_ELFSYM_H
#define GF_CLI_REPORT_INPUT_ELFSYM_H

#include "base/base.h"

struct gf_elfsym;

/*
 * Opens an ELF file whose build id, in hexadecimal, is build_id. Returns NULL if
 * the file is missing, has another build id or is not ELF.
 */
struct gf_elfsym *gf_elfsym_open(const char *path, const char *build_id);
void gf_elfsym_close(struct gf_elfsym *file);

/*
 * Returns the name of the function that covers the offset, and the offset within the function; NULL
 * if there is none.
 */
const char *gf_elfsym_function(const struct gf_elfsym *file, uint64_t offset,
                               uint64_t *ret_distance);

#endif
