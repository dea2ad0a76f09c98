/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of one process, read from its environment. No function here allocates, logs or
 * calls getenv (which races with setenv): they walk the vector that they are given.
 */
#ifndef GF_CONFIG_OPTIONS_H
#define GF_CONFIG_OPTIONS_H

#include "base/base.h"

#define GF_OPTION_PATH_MAX 1024
#define GF_SIZE_AUTO UINT64_MAX /* the library chooses */

/* enum gf_mode { gf_mode_on, ... }, enum gf_bind { gf_bind_auto, ... } and so on. */
#include "config/options.def"
#define GF_ENUMERATOR(token, word) gf_##token##_##word,
#define GF_CHOICE(token, name, fallback, help, text) \
    enum gf_##token { GF_CHOICES_##token(GF_ENUMERATOR) };
#include "config/options.def"
#undef GF_ENUMERATOR

/* Where a value came from, for the report and `doctor`. */
enum gf_origin { gf_origin_default, gf_origin_environment, gf_origin_rejected };

struct gf_options {
#define GF_CHOICE(token, name, fallback, help, text) enum gf_##token token;
#define GF_NUMBER(token, name, fallback, low, high, help, text) unsigned token;
#define GF_SIZE(token, name, fallback, low, high, help, text) uint64_t token;
#define GF_PATH(token, name, help, text) char token[GF_OPTION_PATH_MAX];
#include "config/options.def"
    struct {
#define GF_CHOICE(token, name, fallback, help, text) enum gf_origin token;
#define GF_NUMBER(token, name, fallback, low, high, help, text) enum gf_origin token;
#define GF_SIZE(token, name, fallback, low, high, help, text) enum gf_origin token;
#define GF_PATH(token, name, help, text) enum gf_origin token;
#include "config/options.def"
    } origin;
};

enum gf_option_kind { gf_option_choice, gf_option_number, gf_option_size, gf_option_path };

/* One row of the list, for those who print it. */
struct gf_option_row {
    const char *token;
    const char *name;
    enum gf_option_kind kind;
    const char *fallback;       /* as text */
    const char *const *choices; /* NULL-terminated; NULL unless gf_option_choice */
    uint64_t low, high;         /* gf_option_number and gf_option_size (bytes) */
    const char *help;
    const char *text;
};

extern const struct gf_option_row gf_option_rows[];
extern const size_t gf_option_row_count;

/* A heading of the list and the index of the row that it stands before. */
struct gf_option_section {
    const char *title;
    size_t first;
};

extern const struct gf_option_section gf_option_sections[];
extern const size_t gf_option_section_count;

/* Defaults, then what envp says. A value that does not parse leaves the default. envp may be NULL. */
void gf_options_load(struct gf_options *ret, char *const *envp);

/* Whether "NAME=value" is the library's by name and no option, or not a value of that option. */
bool gf_options_rejects(const char *entry);

/* What an option is where nothing sets it; from `gpufeed run`, which sets some itself. "": none. */
const char *gf_option_fallback(const struct gf_option_row *row, bool from_run);

/*
 * Calls say(closure, line) once for each bad value and each unknown GPUFEED_ name in envp: the
 * line names the option, the value, what is allowed, the nearest of it and what it will be, or the nearest name.
 */
void gf_options_complain(char *const *envp, bool from_run, void (*say)(void *closure, const char *line),
                         void *closure);

/* The value of a row in o as text; buf is used for numbers. Never NULL. */
const char *gf_options_text(const struct gf_options *o, const struct gf_option_row *row, char *buf,
                            size_t size);
enum gf_origin gf_options_origin(const struct gf_options *o, const struct gf_option_row *row);

/* Whether value would be accepted for row: 0 or -EINVAL. Sets nothing. */
int gf_option_check(const struct gf_option_row *row, const char *value);

/* The accepted values in words: "auto, node, off", "0 to 2", "auto, 4K to 1G". Returns buf. */
const char *gf_option_allowed(const struct gf_option_row *row, char *buf, size_t size);

/* What is wrong with a value that is not accepted: "is not understood: allowed is ..., off (did you mean off?)". Returns buf. */
const char *gf_option_mistake(const struct gf_option_row *row, const char *value, char *buf, size_t size);

/* The accepted values as a synopsis: "auto|node|off", "0..2", "auto|4K..1G", "PATH". Returns buf. */
const char *gf_option_form(const struct gf_option_row *row, char *buf, size_t size);

#define GF_OPTION_FLAG_MAX 32

/* The flag of `gpufeed run`, without the two dashes in front: the token written with dashes. */
const char *gf_option_flag(const struct gf_option_row *row, char *buf, size_t size);

/* The row whose variable (GPUFEED_STAGE_MIN) or flag (stage-min) this is; NULL when there is none. */
const struct gf_option_row *gf_option_by_flag(const char *flag);
const struct gf_option_row *gf_option_by_name(const char *name);

#endif
