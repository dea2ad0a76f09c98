/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread's Python frames, read out of CPython's structures and never by running any of
 * it: no reference is counted, no object made, the GIL not needed (the frames are this thread's).
 * Each read is checked, so that a structure of another shape is no line and not a crash. Versions
 * that were never tried have no row, and so no lines.
 */
#ifndef GF_OBSERVE_PYTHON_H
#define GF_OBSERVE_PYTHON_H

#include "base/base.h"

#define GF_PYTHON_FRAMES 6

struct gf_python_frame {
    char file[256]; /* its end, if longer */
    char function[96];
    int line;
};

/* Looks for an interpreter. At times when no lock of the loader matters; may be called again. */
void gf_python_open(void);

/* How many frames, innermost first; 0 where this is no thread of a Python that is known. */
size_t gf_python_frames(struct gf_python_frame *ret, size_t cap);

#endif
