/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/helps.h"

#include "base/base.h"

#include <string.h>

#define GF_CAUSE(name, text) {#name, text},
#define GF_REASON(name, words, text)
static const struct {
    const char *name, *text;
} causes[] = {
#include "cli/report/output/helps.def"
};
#undef GF_CAUSE
#undef GF_REASON

#define GF_CAUSE(name, text)
#define GF_REASON(name, words, text) {#name, words, text},
static const struct {
    const char *name, *words, *text;
} reasons[] = {
#include "cli/report/output/helps.def"
};

const char *gf_cause_help(const char *cause)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(causes); i++)
        if (strcmp(causes[i].name, cause) == 0)
            return causes[i].text;
    return "";
}

const char *gf_reason_words(const char *reason)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(reasons); i++)
        if (strcmp(reasons[i].name, reason) == 0)
            return reasons[i].words;
    return reason;
}

const char *gf_reason_help(const char *reason)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(reasons); i++)
        if (strcmp(reasons[i].name, reason) == 0)
            return reasons[i].text;
    return "";
}
