/* SPDX-License-Identifier: Apache-2.0 */
#include "config/options.h"

#include "base/fmt.h"
#include "base/parse.h"

#include <limits.h>
#include <strings.h>

bool gf_name_is_internal(const char *name)
{
    static const char *const service[] = {"GPUFEED_SERVICE_", "GPUFEED_PORT_"};
    static const char *const whole[] = {GF_NAME_BOUND, GF_NAME_ENGINE, GF_NAME_RUN, "GPUFEED_PORT"};

    for (size_t i = 0; i < GF_ARRAY_LEN(service); i++)
        if (strncmp(name, service[i], strlen(service[i])) == 0)
            return true;
    for (size_t i = 0; i < GF_ARRAY_LEN(whole); i++)
        if (strcmp(name, whole[i]) == 0)
            return true;
    return false;
}

const char *gf_name_split(const char *entry, char *name, size_t size)
{
    static const char prefix[] = "GPUFEED";
    const size_t prefix_length = sizeof(prefix) - 1;

    if (!gf_same_start(entry, prefix, prefix_length) ||
        (entry[prefix_length] != '=' && entry[prefix_length] != '_'))
        return NULL;
    const char *equals = strchr(entry, '=');
    if (!equals)
        return NULL;
    const size_t length = gf_min((size_t)(equals - entry), size - 1);
    memcpy(name, entry, length);
    name[length] = '\0';
    return equals + 1;
}

#define GF_WORD(token, word) #word,
#define GF_CHOICE(token, name, fallback, help, text)                                               \
    static const char *const words_of_##token[] = {GF_CHOICES_##token(GF_WORD) NULL};              \
    _Static_assert(sizeof(enum gf_##token) == sizeof(int), "set_value copies an int");
#define GF_LIST(token, name, help, text)                                                           \
    static const char *const words_of_##token[] = {GF_CHOICES_##token(GF_WORD) NULL};
#define GF_NUMBER(token, name, fallback, low, high, help, text)                                    \
    _Static_assert((high) <= UINT_MAX, name ": the field is an unsigned");
#include "config/options.def"
#undef GF_WORD

const struct gf_option_row gf_option_rows[GF_OPTION_COUNT] = {
#define GF_CHOICE(token, name, fallback, help, text)                                               \
    {#token, name, gf_option_choice, #fallback, words_of_##token, 0, 0, help, text},
#define GF_NUMBER(token, name, fallback, low, high, help, text)                                    \
    {#token, name, gf_option_number, #fallback, NULL, low, high, help, text},
#define GF_SIZE(token, name, fallback, low, high, help, text)                                      \
    {#token, name, gf_option_size, #fallback, NULL, low, high, help, text},
#define GF_PATH(token, name, help, text) {#token, name, gf_option_path, "", NULL, 0, 0, help, text},
#define GF_NAMES(token, name, help, text)                                                          \
    {#token, name, gf_option_names, "", NULL, 0, 0, help, text},
#define GF_LIST(token, name, help, text)                                                           \
    {#token, name, gf_option_list, "off", words_of_##token, 0, 0, help, text},
#include "config/options.def"
};

/*
 * section_<id> gets the index of the row that follows the heading. before_<id> is one less, so that
 * the enumerator of that row gets the same number as section_<id>.
 */
enum {
#define GF_SECTION(id, title) section_##id, before_##id = section_##id - 1,
#define GF_OPTION(token) row_##token,
#include "config/options.def"
};

const struct gf_option_section gf_option_sections[] = {
#define GF_SECTION(id, title) {title, section_##id},
#include "config/options.def"
};

const size_t gf_option_section_count = GF_ARRAY_LEN(gf_option_sections);

/* The offsets of each row's value and origin in struct gf_options. */
static const struct {
    size_t value, origin;
} offsets[GF_OPTION_COUNT] = {
#define GF_OPTION(token)                                                                           \
    {offsetof(struct gf_options, token), offsetof(struct gf_options, origin.token)},
#include "config/options.def"
};

const void *gf_option_value(const struct gf_options *o, const struct gf_option_row *row)
{
    return (const char *)o + offsets[row - gf_option_rows].value;
}

enum gf_origin gf_option_origin(const struct gf_options *o, const struct gf_option_row *row)
{
    enum gf_origin origin;
    memcpy(&origin, (const char *)o + offsets[row - gf_option_rows].origin, sizeof(origin));
    return origin;
}

/*
 * A value of any kind except a path or names, with the type that its member of struct gf_options
 * has.
 */
union value {
    int choice; /* a value of the row's enum */
    unsigned number;
    uint64_t bytes;
    unsigned bits;
};

int gf_word_index(const char *const *words, const char *value)
{
    for (int i = 0; words[i]; i++)
        if (gf_same_word(words[i], value))
            return i;
    return -EINVAL;
}

static bool means_off(const char *value)
{
    static const char *const words[] = {"off", "0", "no", "false", NULL};
    return gf_word_index(words, value) >= 0;
}

/*
 * Returns the index of a word. A choice that includes "off" also accepts other words for off, so
 * that GPUFEED=0 disables the library. Such a choice also accepts words for on, which select the
 * first word of the list.
 */
static int parse_choice(const struct gf_option_row *row, const char *value, int *ret)
{
    static const char *const on[] = {"1", "yes", "true", "on", NULL};
    const int off = gf_word_index(row->choices, "off");

    *ret = gf_word_index(row->choices, value);
    if (*ret < 0 && off >= 0 && means_off(value))
        *ret = off;
    else if (*ret < 0 && off >= 0 && gf_word_index(on, value) >= 0)
        *ret = 0;
    return *ret < 0 ? -EINVAL : 0;
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

/*
 * Copies the first word of a list, truncated to size. Returns the list without this word; NULL if
 * it was the last word.
 */
static const char *split_word(const char *list, char *ret, size_t size)
{
    const size_t length = strcspn(list, ",");

    gf_fmt(ret, size, "%.*s", (int)length, list);
    return list[length] ? list + length + 1 : NULL;
}

/* Sets a bit for each word in value. On failure, `word` contains the first invalid word. */
static int parse_list(const struct gf_option_row *row, const char *value, unsigned *ret,
                      char word[GF_OPTION_WORD_MAX])
{
    unsigned bits = 0;

    if (means_off(value))
        value = NULL;
    for (*ret = 0; value;) {
        value = split_word(value, word, GF_OPTION_WORD_MAX);
        const int index = gf_word_index(row->choices, word);
        if (index < 0 && !gf_same_word(word, "all"))
            return -EINVAL;
        bits |= index < 0 ? ~0u : 1u << index;
    }
    for (unsigned i = 0; row->choices[i]; i++)
        *ret |= bits & 1u << i;
    return 0;
}

static int parse_value(const struct gf_option_row *row, const char *value, union value *ret)
{
    char word[GF_OPTION_WORD_MAX];

    switch (row->kind) {
    case gf_option_choice:
        return parse_choice(row, value, &ret->choice);
    case gf_option_number:
        return parse_number(row, value, &ret->number);
    case gf_option_size:
        return parse_bytes(row, value, &ret->bytes);
    case gf_option_list:
        return parse_list(row, value, &ret->bits, word);
    case gf_option_path:
    case gf_option_names:
        break;
    }
    return strlen(value) < GF_OPTION_PATH_MAX ? 0 : -EINVAL;
}

int gf_option_check(const struct gf_option_row *row, const char *value)
{
    union value parsed;
    return parse_value(row, value, &parsed);
}

const char *gf_option_wrong_word(const struct gf_option_row *row, const char *value,
                                 char buf[GF_OPTION_WORD_MAX])
{
    unsigned bits;
    return row->kind == gf_option_list && parse_list(row, value, &bits, buf) ? buf : value;
}

/* Stores a valid value. Returns false if it is not valid. */
static bool set_value(struct gf_options *o, size_t index, const char *value)
{
    const struct gf_option_row *row = &gf_option_rows[index];
    void *const at = (char *)o + offsets[index].value;
    union value parsed;

    if (parse_value(row, value, &parsed))
        return false;
    if (row->kind == gf_option_path || row->kind == gf_option_names)
        /* "off" means unset, as for other options; ./off names a file. */
        strcpy(at, strcasecmp(value, "off") == 0 ? "" : value);
    else
        memcpy(at, &parsed,
               row->kind == gf_option_size ? sizeof(parsed.bytes) : sizeof(parsed.number));
    return true;
}

const char *gf_option_flag(const struct gf_option_row *row, char *buf, size_t size)
{
    gf_fmt(buf, size, "%s", row->token);
    for (char *c = buf; *c; c++)
        if (*c == '_')
            *c = '-';
    return buf;
}

const struct gf_option_row *gf_option_by_name(const char *name)
{
    for (size_t i = 0; i < GF_OPTION_COUNT; i++)
        if (strcmp(gf_option_rows[i].name, name) == 0)
            return &gf_option_rows[i];
    return NULL;
}

void gf_options_load(struct gf_options *ret, char *const *envp)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < GF_OPTION_COUNT; i++)
        set_value(ret, i, gf_option_rows[i].fallback);
    for (; envp && *envp; envp++) {
        char name[64];
        const char *value = gf_name_split(*envp, name, sizeof(name));
        const struct gf_option_row *row = value ? gf_option_by_name(name) : NULL;
        if (!row || !*value) /* an empty variable counts as unset */
            continue;
        const size_t index = (size_t)(row - gf_option_rows);
        const enum gf_origin origin =
            set_value(ret, index, value) ? gf_origin_environment : gf_origin_rejected;
        memcpy((char *)ret + offsets[index].origin, &origin, sizeof(origin));
    }
}

const char *gf_option_fallback(const struct gf_option_row *row, bool from_run)
{
    return from_run && row == &gf_option_rows[gf_option_index_verbose] ? "1" : row->fallback;
}
