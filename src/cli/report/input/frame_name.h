/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a log: the names of native ones, and the text of Python ones. Executables and libraries
 * are opened once and kept. One thread uses this module.
 */
#ifndef GF_CLI_REPORT_INPUT_FRAME_NAME_H
#define GF_CLI_REPORT_INPUT_FRAME_NAME_H

#include "cli/report/input/scan.h"

/*
 * Writes "function+0x1a (file)", or "file+0x1a2b" if the file is missing, of another build or has no
 * name for the offset. with_distance false leaves out the distance to the function, so that frames
 * of one function are equal. Control characters are replaced.
 */
void gf_frame_name(const char *path, const char *build_id, uint64_t offset, bool with_distance,
                   char *buf, size_t size);

/*
 * The same for a frame of a log, "3+1a2b": object 3 of the event's modules, offset 0x1a2b. False if it is damaged.
 * ret_path, unless NULL, gets the object's path.
 */
bool gf_frame_name_of(struct gf_span modules, struct gf_span frame, bool with_distance, char *buf,
                      size_t size, char ret_path[1024]);

void gf_frame_name_end(void);

/* A Python frame of a log, shortened if it does not fit. */
struct gf_python_text {
    char file[1024], function[512];
    long long line;
};

/* Missing members are "" and 0. Control characters are replaced. */
void gf_frame_python(struct gf_span frame, struct gf_python_text *ret);

#endif
