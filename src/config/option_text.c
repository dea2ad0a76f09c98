/* SPDX-License-Identifier: Apache-2.0 */
#include "config/option_text.h"

#include "base/fmt.h"

#include <string.h>

/* Writes the words of the row whose bits are set, joined by the separator. Returns buf. */
static const char *join_words(const struct gf_option_row *row, unsigned bits, const char *separator,
                              char *buf, size_t size)
{
    size_t at = 0;

    *buf = '\0';
    for (size_t i = 0; row->choices[i] && at < size; i++)
        if (bits >> i & 1)
            at += (size_t)gf_fmt(buf + at, size - at, "%s%s", at ? separator : "", row->choices[i]);
    return buf;
}

/* Writes a size in the largest unit that gives a whole number, as in "64M". Returns buf. */
static const char *format_size(uint64_t bytes, char *buf, size_t size)
{
    static const char units[] = " KMGT";
    unsigned unit = 0;

    while (bytes && bytes % 1024 == 0 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    gf_fmt(buf, size, "%lu%.*s", bytes, unit ? 1 : 0, &units[unit]);
    return buf;
}

const char *gf_option_text_allowed(const struct gf_option_row *row, char *buf, size_t size)
{
    char low[24], high[24], words[160];

    switch (row->kind) {
    case gf_option_choice:
        return join_words(row, ~0u, ", ", buf, size);
    case gf_option_number:
        gf_fmt(buf, size, "%lu to %lu", row->low, row->high);
        break;
    case gf_option_size:
        gf_fmt(buf, size, "auto, %s to %s", format_size(row->low, low, sizeof(low)),
               format_size(row->high, high, sizeof(high)));
        break;
    case gf_option_path:
        gf_fmt(buf, size, "off, or a path of fewer than %d bytes", GF_OPTION_PATH_MAX);
        break;
    case gf_option_names:
        gf_fmt(buf, size, "off, or names, separated by commas, of fewer than %d bytes",
               GF_OPTION_PATH_MAX);
        break;
    case gf_option_list:
        gf_fmt(buf, size, "off, all, or a list, separated by commas, of %s",
               join_words(row, ~0u, ", ", words, sizeof(words)));
        break;
    }
    return buf;
}

const char *gf_option_text_form(const struct gf_option_row *row, char *buf, size_t size)
{
    char low[24], high[24], words[160];

    switch (row->kind) {
    case gf_option_choice:
        return join_words(row, ~0u, "|", buf, size);
    case gf_option_number:
        gf_fmt(buf, size, "%lu..%lu", row->low, row->high);
        break;
    case gf_option_size:
        gf_fmt(buf, size, "auto|%s..%s", format_size(row->low, low, sizeof(low)),
               format_size(row->high, high, sizeof(high)));
        break;
    case gf_option_path:
        gf_fmt(buf, size, "off|PATH");
        break;
    case gf_option_names:
        gf_fmt(buf, size, "off|NAME,...");
        break;
    case gf_option_list:
        gf_fmt(buf, size, "off|all|%s", join_words(row, ~0u, ",", words, sizeof(words)));
        break;
    }
    return buf;
}

const char *gf_option_text_value(const struct gf_options *o, const struct gf_option_row *row,
                                 char *buf, size_t size)
{
    const void *value = gf_option_value(o, row);

    switch (row->kind) {
    case gf_option_choice:
        return row->choices[*(const int *)value];
    case gf_option_number:
        gf_fmt(buf, size, "%u", *(const unsigned *)value);
        return buf;
    case gf_option_size: {
        const uint64_t bytes = *(const uint64_t *)value;
        return bytes == GF_SIZE_AUTO ? "auto" : format_size(bytes, buf, size);
    }
    case gf_option_list: {
        const unsigned bits = *(const unsigned *)value;
        return bits ? join_words(row, bits, ",", buf, size) : "off";
    }
    case gf_option_path:
    case gf_option_names:
        break;
    }
    return value;
}
