/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of one process, read from its environment. No function here allocates, logs or calls
 * getenv (which races with setenv): each reads the vector that the caller passes. Any thread, any
 * time, also inside malloc.
 */
#ifndef GF_CONFIG_OPTIONS_H
#define GF_CONFIG_OPTIONS_H

#include "base/base.h"
#include "base/log_areas.h"

#define GF_OPTION_PATH_MAX 1024
#define GF_OPTION_FLAG_MAX 32
#define GF_OPTION_WORD_MAX 32   /* a longer word of a list is truncated, and is then invalid */
#define GF_SIZE_AUTO UINT64_MAX /* auto */

/* enum gf_mode { gf_mode_on, ... }, enum gf_bind { gf_bind_auto, ... } and so on. */
#include "config/options.def"
#define GF_ENUMERATOR(token, word) gf_##token##_##word,
#define GF_CHOICE(token, name, fallback, help, text)                                               \
    enum gf_##token{GF_CHOICES_##token(GF_ENUMERATOR)};
#include "config/options.def"
#undef GF_ENUMERATOR

/*
 * The source of a value. gf_origin_rejected: the default is used, because the environment's value
 * is invalid.
 */
enum gf_origin { gf_origin_default, gf_origin_environment, gf_origin_rejected };

struct gf_options {
#define GF_CHOICE(token, name, fallback, help, text) enum gf_##token token;
#define GF_NUMBER(token, name, fallback, low, high, help, text) unsigned token;
#define GF_SIZE(token, name, fallback, low, high, help, text) uint64_t token;
#define GF_PATH(token, name, help, text) char token[GF_OPTION_PATH_MAX];
#define GF_NAMES(token, name, help, text) char token[GF_OPTION_PATH_MAX];
#define GF_LIST(token, name, help, text) unsigned token; /* bit n: the n-th word of the list */
#include "config/options.def"
    struct {
#define GF_OPTION(token) enum gf_origin token;
#include "config/options.def"
    } origin;
};

enum gf_option_kind {
    gf_option_choice,
    gf_option_number,
    gf_option_size,
    gf_option_path,
    gf_option_names,
    gf_option_list
};

/* One row of options.def. */
struct gf_option_row {
    const char *token;
    const char *name;
    enum gf_option_kind kind;
    const char *fallback;       /* the default as text; "" for a path or names */
    const char *const *choices; /* NULL-terminated; of gf_option_choice and gf_option_list */
    uint64_t low, high;         /* gf_option_number and gf_option_size (bytes) */
    const char *help;
    const char *text;
};

/* The index of each row in gf_option_rows. */
enum gf_option_index {
#define GF_OPTION(token) gf_option_index_##token,
#include "config/options.def"
    GF_OPTION_COUNT
};

extern const struct gf_option_row gf_option_rows[GF_OPTION_COUNT];

/* A heading and the index of the row that it precedes. */
struct gf_option_section {
    const char *title;
    size_t first;
};

extern const struct gf_option_section gf_option_sections[];
extern const size_t gf_option_section_count;

/* Sets the defaults, then the valid values in envp, which may be NULL. */
void gf_options_load(struct gf_options *ret, char *const *envp);

/* Whether the row accepts the value: 0 or -EINVAL. */
int gf_option_check(const struct gf_option_row *row, const char *value);

/* The invalid part of a rejected value: a word of a list (in buf), or the value itself. */
const char *gf_option_wrong_word(const struct gf_option_row *row, const char *value,
                                 char buf[GF_OPTION_WORD_MAX]);

/*
 * The default as text, or "" if the option has none. from_run: the default under `gpufeed run`,
 * which differs for some options.
 */
const char *gf_option_fallback(const struct gf_option_row *row, bool from_run);

/*
 * The row's field in o. Its type depends on the kind: an int-sized enum, unsigned, uint64_t or
 * char[GF_OPTION_PATH_MAX].
 */
const void *gf_option_value(const struct gf_options *o, const struct gf_option_row *row);
enum gf_origin gf_option_origin(const struct gf_options *o, const struct gf_option_row *row);

/*
 * The flag of `gpufeed run` without its leading dashes: the token, with '-' for '_'. Returns buf.
 */
const char *gf_option_flag(const struct gf_option_row *row, char *buf, size_t size);

/* The row of a flag ("stage-min") or a variable ("GPUFEED_STAGE_MIN"); NULL if not found. */
const struct gf_option_row *gf_option_by_flag(const char *flag);
const struct gf_option_row *gf_option_by_name(const char *name);

#endif
