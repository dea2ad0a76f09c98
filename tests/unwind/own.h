/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder under test. */
#ifndef GF_TESTS_UNWIND_OWN_H
#define GF_TESTS_UNWIND_OWN_H

#include "preload/trace/dwarf.h"
#include "preload/trace/unwind.h"

#endif
