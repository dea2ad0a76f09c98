/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into the caller's buffer: no allocation, no locale. So hooks can write events, and
 * the report can be written at exit. Like snprintf's result, `at` is the length that the whole text
 * needs.
 */
#ifndef GF_BASE_JSON_H
#define GF_BASE_JSON_H

#include "base/base.h"

struct gf_json {
    char *buf;
    size_t size;
    size_t at;
    bool lines; /* one value per line, indented; otherwise all on one line */
    bool more;  /* the next value needs a comma before it */
    unsigned depth;
};

/* key is NULL inside an array and at the top. Bracket is '{' or '['. */
void gf_json_begin(struct gf_json *json, const char *key, char bracket);
void gf_json_end(struct gf_json *json, char bracket);                        /* '}' or ']' */
void gf_json_text(struct gf_json *json, const char *key, const char *value); /* NULL: null */
void gf_json_int(struct gf_json *json, const char *key, int64_t value);
void gf_json_size(struct gf_json *json, const char *key, uint64_t value);
void gf_json_bool(struct gf_json *json, const char *key, bool value);
void gf_json_null(struct gf_json *json, const char *key);
/* Write null for negative values and for UINT64_MAX, which mean unknown. */
void gf_json_known_int(struct gf_json *json, const char *key, int64_t value);
void gf_json_known_size(struct gf_json *json, const char *key, uint64_t value);
/* value/1000 with three decimals. */
void gf_json_milli(struct gf_json *json, const char *key, uint64_t value);
/* value/1000000 with six decimals. */
void gf_json_micro(struct gf_json *json, const char *key, uint64_t value);
/* Inserts the members of a finished object, "{...}" on one line. */
void gf_json_members(struct gf_json *json, const char *object);
/* Terminates the text; true if all of it fitted. */
bool gf_json_close(struct gf_json *json);

#endif
