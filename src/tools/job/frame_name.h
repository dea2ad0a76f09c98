/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job_input.h"

/* Finds function names in ELF files. A log stores native frames as an object and an offset. */

struct gf_elfsym;

/*
 * Opens an ELF file whose build id, in hexadecimal, is build_id. Returns NULL if
 * the file is missing, has another build id or is not ELF.
 */
struct gf_elfsym *gf_elfsym_open(const char *path, const char *build_id);
void gf_elfsym_close(struct gf_elfsym *file);

/*
 * Returns the name of the function that covers the offset, and the offset within the function; NULL
 * if no function covers it.
 */
const char *gf_elfsym_function(const struct gf_elfsym *file, uint64_t offset,
                               uint64_t *ret_distance);

/*
 * Texts for a log's native and Python frames. Executables and libraries are opened once and stay
 * open. Only one thread may use this module.
 */

/* Reads the modules of an event, before the names of its frames. */
void gf_frame_modules(struct gf_span modules);

/*
 * Writes the name of a native frame, such as "function+0x1a (file)". In the log, the frame "3+1a2b"
 * means offset 0x1a2b in object 3 of the event's modules. Writes "file+0x1a2b" if the file is
 * missing, has no build id or another one, or has no name for the offset. with_distance = false omits
 * "+0x1a", so that all frames of a function have the same text. Control characters are replaced.
 * Returns false if the frame is damaged. ret_path receives the object's path; it may be NULL.
 */
bool gf_frame_name_of(struct gf_span frame, bool with_distance, char *buf, size_t size,
                      char ret_path[1024]);

void gf_frame_name_end(void);

/* A Python frame of a log. Longer texts are cut. */
struct gf_python_text {
    char file[1024], function[512];
    int64_t line;
};

/* Reads a Python frame of a log. Missing members are "" or 0. Control characters are replaced. */
void gf_frame_python(struct gf_span frame, struct gf_python_text *ret);
