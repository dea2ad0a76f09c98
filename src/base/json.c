/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/fmt.h"

static void put(struct gf_json *json, const char *text, size_t length)
{
    if (json->at + length < json->size)
        memcpy(json->buf + json->at, text, length);
    json->at += length;
}

static void put_line(struct gf_json *json)
{
    if (!json->lines)
        return;
    put(json, "\n", 1);
    for (unsigned i = 0; i < json->depth; i++)
        put(json, "  ", 2);
}

static void put_string(struct gf_json *json, const char *text)
{
    uint32_t point;

    put(json, "\"", 1);
    for (unsigned length; *text; text += length ? length : 1) {
        char escaped[8];
        length = gf_utf8_decode(text, &point);
        if (*text == '"' || *text == '\\')
            put(json, (const char[]){'\\', *text}, 2);
        else if (length == 0) /* paths and names may contain such bytes */
            put(json, "\\ufffd", 6);
        else if (point < 0x20 || point == 0x7f)
            put(json, escaped, (size_t)gf_fmt(escaped, sizeof(escaped), "\\u%04x", point));
        else
            put(json, text, length);
    }
    put(json, "\"", 1);
}

static void put_key(struct gf_json *json, const char *key)
{
    if (json->more)
        put(json, ",", 1);
    if (json->depth)
        put_line(json);
    json->more = true;
    if (!key)
        return;
    put_string(json, key);
    put(json, ": ", json->lines ? 2 : 1);
}

void gf_json_begin(struct gf_json *json, const char *key, char bracket)
{
    put_key(json, key);
    put(json, &bracket, 1);
    json->depth++;
    json->more = false;
}

void gf_json_end(struct gf_json *json, char bracket)
{
    json->depth--;
    if (json->more)
        put_line(json);
    put(json, &bracket, 1);
    json->more = true;
}

void gf_json_text(struct gf_json *json, const char *key, const char *value)
{
    if (!gf_json_known(json, key, value))
        return;
    put_key(json, key);
    put_string(json, value);
}

void gf_json_int(struct gf_json *json, const char *key, int64_t value)
{
    char digits[24];
    put_key(json, key);
    put(json, digits, (size_t)gf_fmt(digits, sizeof(digits), "%ld", value));
}

void gf_json_size(struct gf_json *json, const char *key, uint64_t value)
{
    char digits[24];
    put_key(json, key);
    put(json, digits, (size_t)gf_fmt(digits, sizeof(digits), "%lu", value));
}

void gf_json_put_numbers(struct gf_json *json, const char *key,
                         const struct gf_json_number *numbers, size_t count)
{
    gf_json_object(json, key);
    for (size_t i = 0; i < count; i++)
        gf_json_size(json, numbers[i].key, numbers[i].value);
}

void gf_json_bool(struct gf_json *json, const char *key, bool value)
{
    put_key(json, key);
    put(json, value ? "true" : "false", value ? 4 : 5);
}

void gf_json_null(struct gf_json *json, const char *key)
{
    put_key(json, key);
    put(json, "null", 4);
}

void gf_json_known_int(struct gf_json *json, const char *key, int64_t value)
{
    if (gf_json_known(json, key, value >= 0))
        gf_json_int(json, key, value);
}

void gf_json_known_size(struct gf_json *json, const char *key, uint64_t value)
{
    if (gf_json_known(json, key, value != UINT64_MAX))
        gf_json_size(json, key, value);
}

void gf_json_milli(struct gf_json *json, const char *key, uint64_t value)
{
    char digits[32];
    put_key(json, key);
    put(json, digits,
        (size_t)gf_fmt(digits, sizeof(digits), "%lu.%03lu", value / 1000, value % 1000));
}

void gf_json_micro(struct gf_json *json, const char *key, uint64_t value)
{
    char digits[32];
    put_key(json, key);
    put(json, digits,
        (size_t)gf_fmt(digits, sizeof(digits), "%lu.%06lu", value / 1000000, value % 1000000));
}

void gf_json_members(struct gf_json *json, const char *object)
{
    const size_t length = strlen(object);

    if (length <= 2)
        return;
    if (json->more)
        put(json, ",", 1);
    json->more = true;
    put(json, object + 1, length - 2);
}

bool gf_json_close(struct gf_json *json)
{
    if (json->size)
        json->buf[gf_min(json->at, json->size - 1)] = '\0';
    return json->at < json->size;
}
