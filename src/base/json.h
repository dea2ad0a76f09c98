/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into the caller's buffer. The functions allocate nothing and ignore the locale, so
 * hooks can use them for events, and the report can be written at exit. The member `at` is the
 * length of the whole text, which may exceed `size`, like the result of snprintf.
 */
#pragma once

#include "base/base.h"

struct gf_json {
    char *buf;
    size_t size;
    size_t at;
    /* True: each value is on its own line, indented. False: all values are on one line. */
    bool lines;
    bool more; /* true if a comma must precede the next value */
    unsigned depth;
};

/*
 * For each function below, key is NULL if the value is an element of an array or the outermost
 * value. gf_json_begin begins an object ('{') or an array ('[').
 */
void gf_json_begin(struct gf_json *json, const char *key, char bracket);
void gf_json_end(struct gf_json *json, char bracket); /* '}' or ']' */
/* Begin an object or an array that ends with the block in which it stands. */
#define gf_json_object(json, key) GF_JSON_SCOPE(json, key, '{', gf_json_end_object, __COUNTER__)
#define gf_json_array(json, key) GF_JSON_SCOPE(json, key, '[', gf_json_end_array, __COUNTER__)
#define GF_JSON_SCOPE(json, key, bracket, end, number)                                             \
    GF_JSON_SCOPE_(json, key, bracket, end, number)
#define GF_JSON_SCOPE_(json, key, bracket, end, number)                                            \
    struct gf_json *const gf_scope_##number __attribute__((unused, cleanup(end))) = (json);        \
    gf_json_begin(gf_scope_##number, key, bracket)
static inline void gf_json_end_object(struct gf_json *const *json)
{
    gf_json_end(*json, '}');
}
static inline void gf_json_end_array(struct gf_json *const *json)
{
    gf_json_end(*json, ']');
}

/* Writes null if value is NULL. */
void gf_json_text(struct gf_json *json, const char *key, const char *value);
void gf_json_int(struct gf_json *json, const char *key, int64_t value);
void gf_json_size(struct gf_json *json, const char *key, uint64_t value);
/* Writes an object of numbers: gf_json_numbers(json, "small", {"calls", 2}, {"bytes", 64}). */
#define gf_json_numbers(json, key, ...)                                                            \
    gf_json_put_numbers(json, key, (const struct gf_json_number[]){__VA_ARGS__},                   \
                        GF_ARRAY_LEN(((const struct gf_json_number[]){__VA_ARGS__})))
struct gf_json_number {
    const char *key;
    uint64_t value;
};
void gf_json_put_numbers(struct gf_json *json, const char *key,
                         const struct gf_json_number *numbers, size_t count);
void gf_json_bool(struct gf_json *json, const char *key, bool value);
void gf_json_null(struct gf_json *json, const char *key);
/* These two functions write null for an unknown value, which is a negative value or UINT64_MAX. */
void gf_json_known_int(struct gf_json *json, const char *key, int64_t value);
void gf_json_known_size(struct gf_json *json, const char *key, uint64_t value);
/* Writes null unless the value, which the caller then writes, is known. Returns `known`. */
static inline bool gf_json_known(struct gf_json *json, const char *key, bool known)
{
    if (!known)
        gf_json_null(json, key);
    return known;
}
/* Writes value/1000 with three decimals. */
void gf_json_milli(struct gf_json *json, const char *key, uint64_t value);
/* Writes value/1000000 with six decimals. */
void gf_json_micro(struct gf_json *json, const char *key, uint64_t value);
/*
 * Adds the members of another object to the current one. The text of the other object is complete,
 * from '{' to '}', and on one line.
 */
void gf_json_members(struct gf_json *json, const char *object);
/* Terminates the text. Returns true if the whole text fitted into the buffer. */
bool gf_json_close(struct gf_json *json);
