/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped objects. */
#pragma once

#include "base/base.h"

#include <stdio.h>

/* Lines of /proc/PID/maps. */
struct gf_maps_line {
    uintptr_t start, end, offset;
    bool executable;
    ino_t inode;
    const char *path; /* within the line; "" if the mapping has no name */
    char text[4096 + 128];
};

/*
 * Opens the process's list of mappings. Returns NULL and sets errno if the list cannot be read. The
 * caller closes the result with fclose.
 */
FILE *gf_maps_open(pid_t pid);

/*
 * Reads the next line that has the form documented in proc(5), and skips other lines. Returns false
 * if no line is left.
 */
bool gf_maps_next(FILE *maps, struct gf_maps_line *ret);

/*
 * Writes a path by which this process can open the file of a mapping. In a container, the mapping
 * has the path below the process's root; after chroot, the path below this process's root.
 */
void gf_maps_file(pid_t pid, const char *path, ino_t inode, char *ret, size_t size);

/* The objects that a process has mapped, and the functions in them, from their symbol tables. */

struct gf_objects;

/*
 * Reads the process's mappings of code. Returns NULL if they cannot be read, or if memory is short.
 * Only one thread may use the result.
 */
struct gf_objects *gf_objects_read(pid_t pid);
void gf_objects_free(struct gf_objects *objects);

/*
 * Writes "function+0x12 (object)". If no symbol covers the address, for example in a stripped
 * object, writes "object+0x1234". For an address outside of all objects, writes only the address.
 * The object's path, and so the text, may contain any character. Returns false if the process has
 * mapped no code at the address, and true if the mappings are not known.
 */
bool gf_objects_name(struct gf_objects *objects, uintptr_t address, char *ret, size_t size);
