/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_input.h"

#include "base/fmt.h"

#include <stdlib.h>

static void skip_blanks(struct gf_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r'))
        scan->at++;
}

static bool fail(struct gf_scan *scan)
{
    scan->bad = true;
    scan->at = scan->end;
    return false;
}

static bool take(struct gf_scan *scan, char c)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/*
 * Returns the byte after the closing quote of a string, or NULL. `at` is after the opening quote.
 */
static const char *string_end(const char *at, const char *end)
{
    while (at < end) {
        const char *quote = memchr(at, '"', (size_t)(end - at)), *back = quote;
        if (!quote)
            return NULL;
        while (back > at && back[-1] == '\\')
            back--;
        if ((quote - back) % 2 == 0)
            return quote + 1;
        at = quote + 1;
    }
    return NULL;
}

/*
 * Finds the end of an object or list; `at` is after the opening bracket. A bracket of the wrong
 * kind is accepted here; the later scan of the object or list detects it.
 */
static const char *nested_end(const char *at, const char *end)
{
    unsigned depth = 1;

    while (at < end) {
        const char c = *at++;
        if (c == '"') {
            at = string_end(at, end);
            if (!at)
                return NULL;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return at;
        }
    }
    return NULL;
}

static const char *word_end(const char *at, const char *end)
{
    const char *from = at;

    while (at < end && ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || *at == '.' ||
                        *at == '-' || *at == '+' || *at == 'E'))
        at++;
    return at > from ? at : NULL;
}

static bool take_value(struct gf_scan *scan, struct gf_span *ret)
{
    skip_blanks(scan);
    if (scan->at == scan->end)
        return fail(scan);
    const char *from = scan->at, *behind;
    if (*from == '"')
        behind = string_end(from + 1, scan->end);
    else if (*from == '{' || *from == '[')
        behind = nested_end(from + 1, scan->end);
    else
        behind = word_end(from, scan->end);
    if (!behind)
        return fail(scan);
    *ret = (struct gf_span){from, (size_t)(behind - from)};
    scan->at = behind;
    return true;
}

struct gf_scan gf_scan_begin(struct gf_span text, char bracket)
{
    const char *at = text.size ? text.at : "";
    struct gf_scan scan = {.at = at, .end = at + text.size, .first = true};

    if (!take(&scan, bracket))
        fail(&scan);
    return scan;
}

/* True if another member or element follows; reads the comma before it. */
static bool has_next(struct gf_scan *scan, char closing)
{
    if (scan->bad || take(scan, closing))
        return false;
    if (!scan->first && !take(scan, ','))
        return fail(scan);
    scan->first = false;
    return true;
}

bool gf_scan_member(struct gf_scan *scan, struct gf_span *ret_key, struct gf_span *ret_value)
{
    if (!has_next(scan, '}'))
        return false;
    if (!take(scan, '"'))
        return fail(scan);
    const char *from = scan->at, *behind = string_end(from, scan->end);
    if (!behind)
        return fail(scan);
    *ret_key = (struct gf_span){from, (size_t)(behind - 1 - from)};
    scan->at = behind;
    if (!take(scan, ':'))
        return fail(scan);
    return take_value(scan, ret_value);
}

bool gf_scan_element(struct gf_scan *scan, struct gf_span *ret_value)
{
    return has_next(scan, ']') && take_value(scan, ret_value);
}

bool gf_scan_ended(const struct gf_scan *scan)
{
    struct gf_scan rest = *scan;

    skip_blanks(&rest);
    return !rest.bad && rest.at == rest.end;
}

bool gf_span_is(struct gf_span span, const char *word)
{
    return strlen(word) == span.size && memcmp(span.at, word, span.size) == 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes four hexadecimal digits. Returns -1 for other text. */
static int32_t code_unit(const char *at, const char *end)
{
    int32_t unit = 0;

    for (int i = 0; i < 4; i++) {
        const int digit = at + i < end ? hex_digit(at[i]) : -1;
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Decodes "\uXXXX" or a surrogate pair; `at` is after the 'u'. Returns the byte after it. */
static const char *decode_unit(const char *at, const char *end, int32_t *ret)
{
    const int32_t high = code_unit(at, end);

    *ret = '?';
    if (high < 0)
        return at;
    at += 4;
    if (high >> 10 == 0x36 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        const int32_t low = code_unit(at + 2, end);
        if (low >> 10 == 0x37) {
            *ret = 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
            return at + 6;
        }
    }
    if (high && high >> 11 != 0x1b)
        *ret = high;
    return at;
}

/* Decodes one escape; `at` is after the backslash. */
static const char *decode_escape(const char *at, const char *end, int32_t *ret)
{
    static const char letters[] = "bfnrt", codes[] = "\b\f\n\r\t";

    if (*at == 'u')
        return decode_unit(at + 1, end, ret);
    const char *letter = strchr(letters, *at);
    *ret = letter && *letter ? codes[letter - letters] : *at;
    if (!*ret)
        *ret = '?';
    return at + 1;
}

bool gf_span_text(struct gf_span value, char *buf, size_t size)
{
    size_t length = 0;

    *buf = '\0';
    if (value.size < 2 || *value.at != '"')
        return false;
    const char *at = value.at + 1, *end = value.at + value.size - 1;
    while (at < end && length + 5 < size) {
        const char *escape = memchr(at, '\\', gf_min((size_t)(end - at), size - length - 5));
        const size_t plain =
            escape ? (size_t)(escape - at) : gf_min((size_t)(end - at), size - length - 5);
        int32_t c;
        memcpy(buf + length, at, plain);
        length += plain;
        at += plain;
        if (!escape || at + 1 >= end)
            break;
        at = decode_escape(at + 1, end, &c);
        if (c < 0) /* the first byte of a longer code point, after a backslash */
            buf[length++] = (char)c;
        else
            length += gf_utf8_encode((uint32_t)c, buf + length);
    }
    buf[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (!buf[i])
            buf[i] = '?';
    gf_plain_text(buf);
    return true;
}

bool gf_span_is_number(struct gf_span value)
{
    return value.size && (*value.at == '-' || (*value.at >= '0' && *value.at <= '9'));
}

double gf_span_number(struct gf_span value)
{
    char text[48];
    uint64_t whole = 0;
    double fraction = 0, unit = 1;
    size_t i = 0;

    if (!gf_span_is_number(value))
        return 0;
    for (; i < value.size && i < 18 && value.at[i] >= '0' && value.at[i] <= '9'; i++)
        whole = whole * 10 + (uint64_t)(value.at[i] - '0');
    if (i < value.size && value.at[i] == '.' && i)
        for (i++; i < value.size && i < 30 && value.at[i] >= '0' && value.at[i] <= '9'; i++) {
            fraction = fraction * 10 + (value.at[i] - '0');
            unit *= 10;
        }
    if (i == value.size)
        return (double)whole + fraction / unit;
    const size_t length = gf_min(value.size, sizeof(text) - 1);
    memcpy(text, value.at, length);
    text[length] = '\0';
    const double number = strtod(text, NULL);
    return number > -1e300 && number < 1e300 ? number : 0;
}

int64_t gf_span_int(struct gf_span value)
{
    const bool negative = value.size && *value.at == '-';
    uint64_t number = 0;

    if (!gf_span_is_number(value))
        return 0;
    for (size_t i = negative; i < value.size && value.at[i] >= '0' && value.at[i] <= '9'; i++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(value.at[i] - '0'), &number) ||
            number > INT64_MAX) {
            number = INT64_MAX;
            break;
        }
    return negative ? -(int64_t)number : (int64_t)number;
}
