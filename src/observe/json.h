/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into a buffer that is given: no allocation, no locale, so that events may be written
 * inside a hook and the report at exit. Like snprintf, `at` counts what would have been needed.
 */
#ifndef GF_OBSERVE_JSON_H
#define GF_OBSERVE_JSON_H

#include "base/base.h"

struct gf_json {
    char *buf;
    size_t size;
    size_t at;
    bool lines;     /* a line per value and indentation; else all on one line */
    bool more;      /* a comma is due */
    unsigned depth;
};

/* key is NULL inside an array and at the top. Bracket is '{' or '['. */
void gf_json_begin(struct gf_json *json, const char *key, char bracket);
void gf_json_end(struct gf_json *json, char bracket); /* '}' or ']' */
void gf_json_text(struct gf_json *json, const char *key, const char *value); /* NULL: null */
void gf_json_int(struct gf_json *json, const char *key, int64_t value);
void gf_json_size(struct gf_json *json, const char *key, uint64_t value);
void gf_json_bool(struct gf_json *json, const char *key, bool value);
void gf_json_null(struct gf_json *json, const char *key);
/* null for less than 0, and for UINT64_MAX: what is not known. */
void gf_json_known_int(struct gf_json *json, const char *key, int64_t value);
void gf_json_known_size(struct gf_json *json, const char *key, uint64_t value);
/* value/1000 with three decimals. */
void gf_json_milli(struct gf_json *json, const char *key, uint64_t value);
/* value/1000000 with six decimals. */
void gf_json_micro(struct gf_json *json, const char *key, uint64_t value);
/* The members of a finished object, "{...}" on one line. */
void gf_json_members(struct gf_json *json, const char *object);
/* Terminates; true when all fitted. */
bool gf_json_close(struct gf_json *json);

#endif
