/* SPDX-License-Identifier: Apache-2.0 */
/* Records this machine: hwloc's XML, and copies of the files of /sys that gf_machine_load reads. */
#ifndef GF_ENGINE_MACHINE_RECORD_H
#define GF_ENGINE_MACHINE_RECORD_H

#include <stddef.h>

/*
 * Writes the description of this machine into the folder, in the form that gf_machine_load reads.
 * Creates the folder if it is missing. Returns 0 or -errno. Allocates memory.
 */
int gf_record_machine(const char *folder);

/* Writes one file of the folder, and the folders above it. Returns 0 or -errno. */
int gf_record_text(const char *folder, const char *name, const char *text, size_t length);

/*
 * Copies one more file of this system, such as "proc/meminfo", into the folder. Returns 0 or
 * -errno. If this system lacks the file, returns 0.
 */
int gf_record_file(const char *folder, const char *name);

#endif
