/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/answer/parts.h"

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
#define GF_HOST(name, words, meaning, remedy) {#name, words, remedy},
static const struct row hosts[] = {
#include "abi/reasons.def"
};

#define GF_TABLE(rows)                                                                             \
    {                                                                                              \
        rows, GF_ARRAY_LEN(rows)                                                                   \
    }
static const struct {
    const struct row *rows;
    size_t count;
} tables[] = {
    [gf_help_stall] = GF_TABLE(causes),
    [gf_help_reason] = GF_TABLE(reasons),
    [gf_help_state] = GF_TABLE(states),
    [gf_help_host] = GF_TABLE(hosts),
};

static const struct row *row_of(enum gf_help of, const char *name)
{
    for (size_t i = 0; i < tables[of].count; i++)
        if (strcmp(tables[of].rows[i].name, name) == 0)
            return &tables[of].rows[i];
    return NULL;
}

const char *gf_help_words(enum gf_help of, const char *name)
{
    const struct row *row = row_of(of, name);
    return row ? row->words : of == gf_help_stall ? "" : name;
}

const char *gf_help_remedy(enum gf_help of, const char *name)
{
    const struct row *row = row_of(of, name);
    return row ? row->text : "";
}

void gf_helps_print_causes(void)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(causes); i++)
        gf_wrap(gf_text("  %s", causes[i].name), causes[i].words, 14, 80);
}
