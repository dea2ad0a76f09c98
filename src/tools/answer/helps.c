/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/answer/helps.h"

#include "base/base.h"
#include "tools/common/text.h"

struct row {
    const char *name, *words, *text;
};

#define GF_ROW(name, words, text, ...) {#name, words, text},
#define GF_CAUSE GF_ROW
static const struct row causes[] = {
#include "tools/answer/helps.def"
};
#define GF_REASON GF_ROW
static const struct row reasons[] = {
#include "abi/reasons.def"
};
#define GF_STATE(name, words) {#name, words, ""},
static const struct row states[] = {
#include "abi/reasons.def"
};
#define GF_HOST GF_ROW
static const struct row hosts[] = {
#include "abi/reasons.def"
};

static const struct row *row_of(const struct row *rows, size_t count, const char *name)
{
    static const struct row none = {"", NULL, ""};

    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return &none;
}

#define ROW(table, name) row_of(table, GF_ARRAY_LEN(table), name)

/*
 * Returns the words of the row. If the name is unknown, so that the row has no words, returns the
 * name.
 */
static const char *words_or_name(const struct row *row, const char *name)
{
    return row->words ? row->words : name;
}

const char *gf_cause_words(const char *cause)
{
    const char *words = ROW(causes, cause)->words;
    return words ? words : "";
}

void gf_helps_print_causes(FILE *out)
{
    char label[16];

    for (size_t i = 0; i < GF_ARRAY_LEN(causes); i++) {
        snprintf(label, sizeof(label), "  %s", causes[i].name);
        gf_wrap(out, label, causes[i].words, 14, 80);
    }
}

const char *gf_cause_help(const char *cause)
{
    return ROW(causes, cause)->text;
}

const char *gf_reason_words(const char *reason)
{
    return words_or_name(ROW(reasons, reason), reason);
}

const char *gf_reason_help(const char *reason)
{
    return ROW(reasons, reason)->text;
}

const char *gf_state_words(const char *state)
{
    return words_or_name(ROW(states, state), state);
}

const char *gf_host_words(const char *cause)
{
    return words_or_name(ROW(hosts, cause), cause);
}

const char *gf_host_help(const char *cause)
{
    return ROW(hosts, cause)->text;
}
