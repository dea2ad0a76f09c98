/* SPDX-License-Identifier: Apache-2.0 */
#include "config/validate.h"

#include "base/fmt.h"
#include "config/names.h"
#include "config/option_text.h"
#include "config/suggest.h"

const char *gf_validate_value(const struct gf_option_row *row, const char *value, char *buf,
                              size_t size)
{
    char allowed[160], word[GF_OPTION_WORD_MAX];
    const char *nearest = gf_suggest_value(row, gf_option_wrong_word(row, value, word));

    gf_option_text_allowed(row, allowed, sizeof(allowed));
    gf_fmt(buf, size,
           nearest ? "is not valid; allowed: %s (did you mean %s?)" : "is not valid; allowed: %s",
           allowed, nearest);
    return buf;
}

static void format_unknown_name(const char *name, char *line, size_t size)
{
    const char *nearest = gf_suggest_name(name);

    gf_fmt(line, size,
           nearest ? "%s is not an option (did you mean %s?)"
                   : "%s is not an option; `gpufeed run --help` lists them",
           name, nearest);
}

/*
 * Describes the mistake in an entry of the environment. Returns false if the entry is valid or is
 * not a setting of the library.
 */
static bool format_mistake(const char *entry, bool from_run, char *line, size_t size)
{
    char name[64], mistake[256];
    const char *value = gf_name_split(entry, name, sizeof(name));

    if (!value || gf_name_is_internal(name))
        return false;
    const struct gf_option_row *row = gf_option_by_name(name);
    if (!row) {
        format_unknown_name(name, line, size);
        return true;
    }
    if (gf_option_check(row, value) == 0)
        return false;
    const char *fallback = gf_option_fallback(row, from_run);
    gf_fmt(line, size, "%s=%.80s %s; using %s", name, value,
           gf_validate_value(row, value, mistake, sizeof(mistake)), *fallback ? fallback : "none");
    return true;
}

/* Replaces control characters, because the line may be printed on a terminal. */
static char *make_plain(char *line)
{
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return line;
}

void gf_validate_environment(char *const *envp, bool from_run,
                             void (*report)(void *closure, const char *line), void *closure)
{
    char line[512];

    for (; envp && *envp; envp++)
        if (format_mistake(*envp, from_run, line, sizeof(line)))
            report(closure, make_plain(line));
}

bool gf_validate_rejects(const char *entry)
{
    char line[512];
    return format_mistake(entry, false, line, sizeof(line));
}
