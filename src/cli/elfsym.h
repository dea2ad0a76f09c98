/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions in an ELF file, for stacks that a log recorded as objects and offsets. */
#ifndef GF_CLI_ELFSYM_H
#define GF_CLI_ELFSYM_H

#include "base/base.h"

struct gf_elf;

/*
 * The file, if it is the one whose build id (as hex) was recorded; "" takes any. NULL where it is
 * not there or another build.
 */
struct gf_elf *gf_elf_open(const char *path, const char *build_id);
void gf_elf_close(struct gf_elf *elf);

/* The function that holds the offset, and how far into it; NULL where none is named. */
const char *gf_elf_function(const struct gf_elf *elf, uint64_t offset, uint64_t *ret_distance);

#endif
