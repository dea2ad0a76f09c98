/* SPDX-License-Identifier: Apache-2.0 */
/* The Python interpreter of this process, for the engine, which reads frames of other threads. */
#ifndef GF_ABI_PYTHON_API_H
#define GF_ABI_PYTHON_API_H

#include "base/base.h"

struct gf_python {
    const char *version; /* the text that Py_GetVersion() returns */
    /* The interpreter's global state, _PyRuntime; 0: its symbol was not found. */
    uintptr_t runtime;
    size_t runtime_size;
};

#endif
