/* SPDX-License-Identifier: Apache-2.0 */
/* The options, their parser, their names. */
#pragma once

#include "base/base.h"
#include "base/log_areas.h"

/* Names of environment variables that belong to the library. */

/*
 * A process that the library has bound passes this variable to its children (docs/environment.md).
 * Its value contains the process's mask before the binding, and the mask and memory policy that the
 * library set. A child uses the value only if its own mask equals the mask that the library set.
 */
#define GF_NAME_BOUND "GPUFEED_BOUND"

/*
 * A process with an engine passes its process id to its children in this variable. The heap of such a
 * child may keep as much freed memory as the heap of a forked child.
 */
#define GF_NAME_ENGINE "GPUFEED_ENGINE"

/*
 * `gpufeed run` sets this variable to its process id, which the program keeps. So the library knows
 * which process is the one that `gpufeed run` started.
 */
#define GF_NAME_RUN "GPUFEED_RUN"

/*
 * Whether the variable is one of the names above, or one of those that Kubernetes sets in every pod
 * for a service named gpufeed. Such a variable is neither an option nor a mistake.
 */
bool gf_name_is_internal(const char *name);

/*
 * If the entry is "NAME=value", and NAME is GPUFEED or begins with GPUFEED_: copies NAME, truncated
 * to size, and returns the value. Otherwise returns NULL. Case is ignored, because a lower-case
 * name is a mistake that must be reported.
 */
const char *gf_name_split(const char *entry, char *name, size_t size);

/*
 * The options of one process, read from its environment. The functions allocate nothing and print
 * nothing. They read the environment that the caller passes instead of calling getenv, which races
 * with setenv. They may be called on any thread at any time, also inside malloc.
 */

#define GF_OPTION_PATH_MAX 1024
#define GF_OPTION_FLAG_MAX 32
#define GF_OPTION_WORD_MAX 32   /* a longer word of a list is truncated, and is then invalid */
#define GF_SIZE_AUTO UINT64_MAX /* the value of a size that is set to auto */

/* enum gf_mode { gf_mode_on, ... }, enum gf_bind { gf_bind_auto, ... } and so on. */
#include "config/options.def"
#define GF_ENUMERATOR(token, word) gf_##token##_##word,
#define GF_CHOICE(token, name, fallback, help, text)                                               \
    enum gf_##token{GF_CHOICES_##token(GF_ENUMERATOR)};
#include "config/options.def"
#undef GF_ENUMERATOR

/*
 * Where the value of an option came from. gf_origin_rejected: the default is used, because the
 * value in the environment is invalid.
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

/* A row of options.def. */
struct gf_option_row {
    const char *token;
    const char *name;
    enum gf_option_kind kind;
    const char *fallback; /* the default as text; "" for a path or names */
    /* The words of gf_option_choice and gf_option_list, NULL-terminated. */
    const char *const *choices;
    uint64_t low, high; /* range of gf_option_number, and of gf_option_size in bytes */
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

/* A heading, and the index of the first row below it. */
struct gf_option_section {
    const char *title;
    size_t first;
};

extern const struct gf_option_section gf_option_sections[];
extern const size_t gf_option_section_count;

/*
 * Sets each option to its value in envp if that is valid, otherwise to its default. envp may be
 * NULL.
 */
void gf_options_load(struct gf_options *ret, char *const *envp);

/* Returns the index of a word in a list that NULL ends, ignoring case; -EINVAL if it is not there. */
int gf_word_index(const char *const *words, const char *value);

/* Returns 0 if the value is valid for the row, otherwise -EINVAL. */
int gf_option_check(const struct gf_option_row *row, const char *value);

/*
 * Returns the invalid part of a value that gf_option_check rejects: the first invalid word of a
 * list, copied to buf, or the value itself.
 */
const char *gf_option_wrong_word(const struct gf_option_row *row, const char *value,
                                 char buf[GF_OPTION_WORD_MAX]);

/*
 * Returns the default as text, or "" if the option has none. from_run: whether to return the
 * default under `gpufeed run`, which differs for some options.
 */
const char *gf_option_fallback(const struct gf_option_row *row, bool from_run);

/*
 * Returns the address of the row's value in o. The type of the value depends on the kind of the
 * row: an int-sized enum, unsigned, uint64_t or char[GF_OPTION_PATH_MAX].
 */
const void *gf_option_value(const struct gf_options *o, const struct gf_option_row *row);
enum gf_origin gf_option_origin(const struct gf_options *o, const struct gf_option_row *row);

/*
 * Writes the flag of `gpufeed run` without its leading dashes: row->token with each '_' replaced by
 * '-'. Returns buf.
 */
const char *gf_option_flag(const struct gf_option_row *row, char *buf, size_t size);

/* Returns the row of a variable ("GPUFEED_STAGE_MIN"); NULL if not found. */
const struct gf_option_row *gf_option_by_name(const char *name);
