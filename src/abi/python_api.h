/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes this process's Python interpreter to the engine, which reads Python frames of other
 * threads.
 */
#ifndef GF_ABI_PYTHON_API_H
#define GF_ABI_PYTHON_API_H

#include "base/base.h"

struct gf_python {
    const char *version; /* the text that Py_GetVersion() returns */
    /* The address of _PyRuntime, the interpreter's global state; 0 if the symbol was not found. */
    uintptr_t runtime;
    size_t runtime_size;
};

#endif
