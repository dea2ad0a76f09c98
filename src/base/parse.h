/* SPDX-License-Identifier: Apache-2.0 */
/* Text to numbers, without locale, allocation or errno. */
#ifndef GF_BASE_PARSE_H
#define GF_BASE_PARSE_H

#include "base/base.h"

/* Whole text as a decimal number. 0, -EINVAL, or -ERANGE; *ret untouched on failure. */
int gf_parse_u64(const char *text, uint64_t *ret);

/* A size in bytes: digits and an optional K, M, G or T (powers of 1024; "KiB" and "KB" alike). */
int gf_parse_size(const char *text, uint64_t *ret);

#endif
