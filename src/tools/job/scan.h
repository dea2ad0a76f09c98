/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans JSON text without copies and without allocation. A log line has about a thousand bytes, but
 * the command needs only a few of its values, and skips the others. Damaged text sets `bad` and
 * ends the scan. No byte outside of the text is read.
 */
#pragma once

#include "base/base.h"

/* Bytes of the caller's text. The span of a value includes the quotes of a string. */
struct gf_span {
    const char *at;
    size_t size;
};

struct gf_scan {
    const char *at, *end;
    bool first, bad;
};

/* Begins a scan of the span, which contains an object (bracket is '{') or a list ('['). */
struct gf_scan gf_scan_begin(struct gf_span text, char bracket);

/*
 * Returns the next member of an object; the key is without its quotes. Returns false at the end, or
 * if the text is damaged.
 */
bool gf_scan_member(struct gf_scan *scan, struct gf_span *ret_key, struct gf_span *ret_value);

/* Returns the next element of a list. */
bool gf_scan_element(struct gf_scan *scan, struct gf_span *ret_value);

/* Called after the last member or element. True if only blanks follow. */
bool gf_scan_ended(const struct gf_scan *scan);

bool gf_span_is(struct gf_span span, const char *word);

/*
 * Decodes a string into buf. Cuts it to size, and replaces control characters by '?'. If the value
 * is not a string, returns false and sets buf to "".
 */
bool gf_span_text(struct gf_span value, char *buf, size_t size);

/*
 * Return the value as a number; 0 if it is not a number. Integers are clamped to the range of the
 * type.
 */
double gf_span_number(struct gf_span value);
int64_t gf_span_int(struct gf_span value);
bool gf_span_is_number(struct gf_span value);
