/* SPDX-License-Identifier: Apache-2.0 */
#include "config/options.h"

#include "base/fmt.h"
#include "base/parse.h"
#include "config/names.h"
#include "config/suggest.h"

#include <errno.h>
#include <string.h>

#define GF_WORD(token, word) #word,
#define GF_CHOICE(token, name, fallback, help, text) \
    static const char *const choices_of_##token[] = {GF_CHOICES_##token(GF_WORD) NULL};
#include "config/options.def"
#undef GF_WORD

const struct gf_option_row gf_option_rows[] = {
#define GF_CHOICE(token, name, fallback, help, text)                                            \
    {#token, name, gf_option_choice, #fallback, choices_of_##token, 0, 0, help, text},
#define GF_NUMBER(token, name, fallback, low, high, help, text)                                 \
    {#token, name, gf_option_number, #fallback, NULL, low, high, help, text},
#define GF_SIZE(token, name, fallback, low, high, help, text)                                   \
    {#token, name, gf_option_size, #fallback, NULL, low, high, help, text},
#define GF_PATH(token, name, help, text)                                                        \
    {#token, name, gf_option_path, "", NULL, 0, 0, help, text},
#include "config/options.def"
};

const size_t gf_option_row_count = GF_ARRAY_LEN(gf_option_rows);

/* A section takes the number of the row behind it and gives it back. */
enum {
#define GF_SECTION(id, title) section_##id, before_##id = section_##id - 1,
#define GF_CHOICE(token, name, fallback, help, text) row_##token,
#define GF_NUMBER(token, name, fallback, low, high, help, text) row_##token,
#define GF_SIZE(token, name, fallback, low, high, help, text) row_##token,
#define GF_PATH(token, name, help, text) row_##token,
#include "config/options.def"
};

const struct gf_option_section gf_option_sections[] = {
#define GF_SECTION(id, title) {title, section_##id},
#include "config/options.def"
};

const size_t gf_option_section_count = GF_ARRAY_LEN(gf_option_sections);

/* Where each row's value and origin live in struct gf_options, in the order of the rows. */
static const struct {
    size_t value, origin;
} offsets[] = {
#define GF_OFFSETS(token) {offsetof(struct gf_options, token), offsetof(struct gf_options, origin.token)},
#define GF_CHOICE(token, name, fallback, help, text) GF_OFFSETS(token)
#define GF_NUMBER(token, name, fallback, low, high, help, text) GF_OFFSETS(token)
#define GF_SIZE(token, name, fallback, low, high, help, text) GF_OFFSETS(token)
#define GF_PATH(token, name, help, text) GF_OFFSETS(token)
#include "config/options.def"
#undef GF_OFFSETS
};

static void *value_of(struct gf_options *o, size_t row)
{
    return (char *)o + offsets[row].value;
}

static const void *value_in(const struct gf_options *o, size_t row)
{
    return (const char *)o + offsets[row].value;
}

static int word_index(const char *const *words, const char *value)
{
    for (int i = 0; words[i]; i++)
        if (gf_same_word(words[i], value))
            return i;
    return -EINVAL;
}

/*
 * What can be off is a switch to whoever is in a hurry: GPUFEED=0 must not leave it on. What stands first in
 * the list is what is on.
 */
static int choice_index(const struct gf_option_row *row, const char *value)
{
    static const char *const no[] = {"0", "no", "false", NULL};
    static const char *const yes[] = {"1", "yes", "true", "on", NULL};
    const int named = word_index(row->choices, value), off = word_index(row->choices, "off");

    if (named >= 0 || off < 0)
        return named;
    if (word_index(no, value) >= 0)
        return off;
    return word_index(yes, value) >= 0 ? 0 : -EINVAL;
}

static int parse_number(const struct gf_option_row *row, const char *value, unsigned *ret)
{
    uint64_t number;
    if (gf_parse_u64(value, &number) || number < row->low || number > row->high)
        return -EINVAL;
    *ret = (unsigned)number;
    return 0;
}

static int parse_bytes(const struct gf_option_row *row, const char *value, uint64_t *ret)
{
    uint64_t bytes = GF_SIZE_AUTO;
    if (!gf_same_word(value, "auto") &&
        (gf_parse_size(value, &bytes) || bytes < row->low || bytes > row->high))
        return -EINVAL;
    *ret = bytes;
    return 0;
}

int gf_option_check(const struct gf_option_row *row, const char *value)
{
    unsigned number;
    uint64_t bytes;

    switch (row->kind) {
    case gf_option_choice:
        return choice_index(row, value) < 0 ? -EINVAL : 0;
    case gf_option_number:
        return parse_number(row, value, &number);
    case gf_option_size:
        return parse_bytes(row, value, &bytes);
    case gf_option_path:
        return strlen(value) < GF_OPTION_PATH_MAX ? 0 : -EINVAL;
    }
    return -EINVAL;
}

static void set_value(struct gf_options *o, size_t index, const char *value)
{
    const struct gf_option_row *row = &gf_option_rows[index];

    switch (row->kind) {
    case gf_option_choice: {
        /* Enums of the list have the size of an int: asserted below. */
        const int choice = choice_index(row, value);
        memcpy(value_of(o, index), &choice, sizeof(choice));
        break;
    }
    case gf_option_number:
        parse_number(row, value, value_of(o, index));
        break;
    case gf_option_size:
        parse_bytes(row, value, value_of(o, index));
        break;
    case gf_option_path:
        if (strcasecmp(value, "off") == 0) /* as everywhere else; a file of that name is ./off */
            value = "";
        memcpy(value_of(o, index), value, strlen(value) + 1);
        break;
    }
}

#define GF_CHOICE(token, name, fallback, help, text) \
    _Static_assert(sizeof(enum gf_##token) == sizeof(int), "enum " #token " is not an int");
#include "config/options.def"

const char *gf_option_flag(const struct gf_option_row *row, char *buf, size_t size)
{
    gf_fmt(buf, size, "%s", row->token);
    for (char *c = buf; *c; c++)
        if (*c == '_')
            *c = '-';
    return buf;
}

const struct gf_option_row *gf_option_by_flag(const char *flag)
{
    char buf[GF_OPTION_FLAG_MAX];

    for (size_t i = 0; i < gf_option_row_count; i++)
        if (strcmp(gf_option_flag(&gf_option_rows[i], buf, sizeof(buf)), flag) == 0)
            return &gf_option_rows[i];
    return NULL;
}

const struct gf_option_row *gf_option_by_name(const char *name)
{
    for (size_t i = 0; i < gf_option_row_count; i++)
        if (strcmp(gf_option_rows[i].name, name) == 0)
            return &gf_option_rows[i];
    return gf_option_by_flag(name);
}

/*
 * Splits "NAME=value" when NAME is GPUFEED or begins with GPUFEED_, in lower case, too, which is a mistake
 * to be told; NULL for all others.
 */
static const char *ours(const char *entry, char *name, size_t size)
{
    if (!gf_same_start(entry, "GPUFEED", 7) || (entry[7] != '=' && entry[7] != '_'))
        return NULL;
    const char *equals = strchr(entry, '=');
    if (!equals)
        return NULL;
    const size_t length = gf_min((size_t)(equals - entry), size - 1);
    memcpy(name, entry, length);
    name[length] = '\0';
    return equals + 1;
}

void gf_options_load(struct gf_options *ret, char *const *envp)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < gf_option_row_count; i++)
        set_value(ret, i, gf_option_rows[i].fallback);
    for (; envp && *envp; envp++) {
        char name[64];
        const char *value = ours(*envp, name, sizeof(name));
        const struct gf_option_row *row = value ? gf_option_by_name(name) : NULL;
        if (!row)
            continue;
        const size_t index = (size_t)(row - gf_option_rows);
        const bool good = gf_option_check(row, value) == 0;
        if (good)
            set_value(ret, index, value);
        const enum gf_origin origin = good ? gf_origin_environment : gf_origin_rejected;
        memcpy((char *)ret + offsets[index].origin, &origin, sizeof(origin));
    }
}

static void join_choices(const struct gf_option_row *row, const char *between, char *buf,
                         size_t size)
{
    size_t at = 0;

    for (size_t i = 0; row->choices[i] && at < size; i++)
        at += (size_t)gf_fmt(buf + at, size - at, "%s%s", i ? between : "", row->choices[i]);
}

/* The shortest way to write it. */
static const char *size_text(uint64_t bytes, char *buf, size_t size)
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

const char *gf_option_allowed(const struct gf_option_row *row, char *buf, size_t size)
{
    char low[24], high[24];

    switch (row->kind) {
    case gf_option_choice:
        join_choices(row, ", ", buf, size);
        break;
    case gf_option_number:
        gf_fmt(buf, size, "%lu to %lu", row->low, row->high);
        break;
    case gf_option_size:
        gf_fmt(buf, size, "auto, %s to %s", size_text(row->low, low, sizeof(low)),
               size_text(row->high, high, sizeof(high)));
        break;
    case gf_option_path:
        gf_fmt(buf, size, "off, or a path of fewer than %d bytes", GF_OPTION_PATH_MAX);
        break;
    }
    return buf;
}

const char *gf_option_mistake(const struct gf_option_row *row, const char *value, char *buf, size_t size)
{
    const char *nearest = gf_suggest_value(row, value);
    char allowed[160];

    gf_option_allowed(row, allowed, sizeof(allowed));
    gf_fmt(buf, size, nearest ? "is not understood: allowed is %s (did you mean %s?)"
                              : "is not understood: allowed is %s",
           allowed, nearest);
    return buf;
}

const char *gf_option_form(const struct gf_option_row *row, char *buf, size_t size)
{
    char low[24], high[24];

    switch (row->kind) {
    case gf_option_choice:
        join_choices(row, "|", buf, size);
        break;
    case gf_option_number:
        gf_fmt(buf, size, "%lu..%lu", row->low, row->high);
        break;
    case gf_option_size:
        gf_fmt(buf, size, "auto|%s..%s", size_text(row->low, low, sizeof(low)),
               size_text(row->high, high, sizeof(high)));
        break;
    case gf_option_path:
        gf_fmt(buf, size, "off|PATH");
        break;
    }
    return buf;
}

bool gf_options_rejects(const char *entry)
{
    char name[64];
    const char *value = ours(entry, name, sizeof(name));
    if (!value || gf_name_is_internal(name))
        return false;
    const struct gf_option_row *row = gf_option_by_name(name);
    return !row || gf_option_check(row, value) != 0;
}

const char *gf_option_fallback(const struct gf_option_row *row, bool from_run)
{
    return from_run && row == &gf_option_rows[row_verbose] ? "1" : row->fallback;
}

void gf_options_complain(char *const *envp, bool from_run, void (*say)(void *closure, const char *line),
                         void *closure)
{
    for (; envp && *envp; envp++) {
        char name[64], mistake[256], line[512];
        const char *value = ours(*envp, name, sizeof(name));
        if (!value || gf_name_is_internal(name))
            continue;
        const struct gf_option_row *row = gf_option_by_name(name);
        if (!row) {
            const char *nearest = gf_suggest(name);
            gf_fmt(line, sizeof(line), nearest ? "%s is not an option (did you mean %s?)"
                                               : "%s is not an option; `gpufeed run --help` lists them",
                   name, nearest);
            say(closure, line);
        } else if (gf_option_check(row, value)) {
            const char *fallback = gf_option_fallback(row, from_run);
            gf_fmt(line, sizeof(line), "%s=%.80s %s; using %s", name, value,
                   gf_option_mistake(row, value, mistake, sizeof(mistake)), *fallback ? fallback : "none");
            say(closure, line);
        }
    }
}

const char *gf_options_text(const struct gf_options *o, const struct gf_option_row *row, char *buf,
                            size_t size)
{
    const size_t index = (size_t)(row - gf_option_rows);

    switch (row->kind) {
    case gf_option_choice: {
        int choice;
        memcpy(&choice, value_in(o, index), sizeof(choice));
        return row->choices[choice];
    }
    case gf_option_number: {
        unsigned number;
        memcpy(&number, value_in(o, index), sizeof(number));
        gf_fmt(buf, size, "%u", number);
        return buf;
    }
    case gf_option_size: {
        uint64_t bytes;
        memcpy(&bytes, value_in(o, index), sizeof(bytes));
        return bytes == GF_SIZE_AUTO ? "auto" : size_text(bytes, buf, size);
    }
    case gf_option_path:
        break;
    }
    return value_in(o, index);
}

enum gf_origin gf_options_origin(const struct gf_options *o, const struct gf_option_row *row)
{
    enum gf_origin origin;
    memcpy(&origin, (const char *)o + offsets[row - gf_option_rows].origin, sizeof(origin));
    return origin;
}
