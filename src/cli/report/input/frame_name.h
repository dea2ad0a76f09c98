/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of native frames. Executables and libraries are opened once and kept. One thread uses this
 * module.
 */
#ifndef GF_CLI_REPORT_INPUT_FRAME_NAME_H
#define GF_CLI_REPORT_INPUT_FRAME_NAME_H

#include "base/base.h"

/*
 * Writes "function+0x1a (file)", or "file+0x1a2b" if the file is missing, of another build or has no
 * name for the offset. with_distance false leaves out the distance to the function, so that frames
 * of one function are equal. Control characters are replaced.
 */
void gf_frame_name(const char *path, const char *build_id, uint64_t offset, bool with_distance,
                   char *buf, size_t size);

void gf_frame_name_end(void);

#endif
