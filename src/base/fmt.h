/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats text without allocating memory or reading the locale, and is async-signal-safe. printf
 * guarantees none of this, so it must not be called inside malloc.
 */
#ifndef GF_BASE_FMT_H
#define GF_BASE_FMT_H

#include "base/base.h"

#include <stdarg.h>

/*
 * Supports %s %c %% %p, and d i u x with no length modifier, l, ll or z. Field width, the flags '-'
 * and '0', the precision of %s ("%.*s" too), and %m for the error text of errno work as in printf.
 * Unknown conversions are copied as written. Like snprintf, returns the length that the whole text
 * needs. If size > 0, buf is always terminated. Keeps errno.
 */
int gf_fmt(char *buf, size_t size, const char *format, ...) GF_PRINTF(3, 4);
int gf_vfmt(char *buf, size_t size, const char *format, va_list args) GF_PRINTF(3, 0);

#endif
