/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A formatter that never allocates, ignores the locale and is async-signal-safe; printf may do
 * neither inside malloc or before libc is ready.
 */
#ifndef GF_BASE_FMT_H
#define GF_BASE_FMT_H

#include "base/base.h"

#include <stdarg.h>

/*
 * Knows %s %c %% and d i u x of the lengths none, l, ll, z, plus %p; with field width, '-' and '0'
 * flags, precision of %s ("%.*s" too), and %m for the error text of errno. A percent sign it does
 * not know is copied as it stands. Returns the length the whole text needs, like snprintf; buf is
 * always terminated when size > 0. Keeps errno.
 */
int gf_fmt(char *buf, size_t size, const char *format, ...) GF_PRINTF(3, 4);
int gf_vfmt(char *buf, size_t size, const char *format, va_list args) GF_PRINTF(3, 0);

#endif
