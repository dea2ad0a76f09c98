/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "host/machine.h"

/*
 * recorded: the folder of a recorded machine; NULL or "": this machine. The folder contains hwloc's
 * topology.xml, or a synthetic topology for hwloc in topology.txt. It also contains the files of
 * /sys that this function reads (docs/placement.md). Returns 0 or -errno. The caller owns *ret and
 * frees it with gf_machine_free. Allocates memory. Changes no thread's mask, and loads no hwloc
 * plugin. May be called on any thread, also under the loader's lock. Takes 5 to 30 ms on a large
 * machine.
 */
int gf_machine_load(const char *recorded, struct gf_machine **ret);

/*
 * Records this machine for gf_machine_load: writes hwloc's XML, and copies of the files of /sys, into
 * the folder. Creates the folder if it is missing. Returns 0 or -errno. Allocates memory.
 */
int gf_record_machine(const char *folder);

/* Writes one file of the folder, and the folders above it. Returns 0 or -errno. */
int gf_record_text(const char *folder, const char *name, const char *text, size_t length);

/*
 * Copies one more file of this system, such as "proc/meminfo", into the folder. Returns 0 or
 * -errno. If this system lacks the file, returns 0.
 */
int gf_record_file(const char *folder, const char *name);

/*
 * The same for several files, whose names follow the prefix. Stops at the first error. NULL ends the list.
 */
int gf_record_files(const char *folder, const char *prefix, const char *const *files);
#define GF_RECORD_FILES(folder, prefix, ...)                                                       \
    gf_record_files(folder, prefix, (const char *const[]){__VA_ARGS__, NULL})
