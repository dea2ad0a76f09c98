/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over JSON text without a copy and without allocation. A log has a thousand bytes in each
 * line, of which the command needs a few values: the rest is only skipped. Damaged text makes a
 * walk end with `bad`; nothing outside of the text is read.
 */
#ifndef GF_CLI_REPORT_INPUT_SCAN_H
#define GF_CLI_REPORT_INPUT_SCAN_H

#include "base/base.h"

/* Bytes of a text that the caller owns. In gf_scan_member: a whole value, strings with quotes. */
struct gf_span {
    const char *at;
    size_t size;
};

struct gf_scan {
    const char *at, *end;
    bool first, bad;
};

/* Begins a walk over the object or list (bracket is '{' or '[') that the span holds. */
struct gf_scan gf_scan_begin(struct gf_span text, char bracket);

/* The next member of an object; key lacks its quotes. False at the end, and if the text is bad. */
bool gf_scan_member(struct gf_scan *scan, struct gf_span *ret_key, struct gf_span *ret_value);

/* The next element of a list. */
bool gf_scan_element(struct gf_scan *scan, struct gf_span *ret_value);

/* True once only blanks follow the walked value; called after the last member or element. */
bool gf_scan_ended(const struct gf_scan *scan);

bool gf_span_is(struct gf_span span, const char *word);

/*
 * Decodes a string into buf, cut to size, with control characters replaced by '?'. False,
 * and "" in buf, if the value is not a string.
 */
bool gf_span_text(struct gf_span value, char *buf, size_t size);

/* The value of a number; 0 for another value. Integers are cut to the range of the type. */
double gf_span_number(struct gf_span value);
int64_t gf_span_int(struct gf_span value);
bool gf_span_is_number(struct gf_span value);

#endif
