/* SPDX-License-Identifier: Apache-2.0 */
#include "host/hint.h"

#include "base/fmt.h"
#include "base/parse.h"
#include "config/options.h"
#include "host/mempolicy.h"
#include "os/launch.h"

#include <linux/mempolicy.h>
#include <stdlib.h>

static const char entry_prefix[] = GF_NAME_BOUND "=";
static const char engine_prefix[] = GF_NAME_ENGINE "=";

static void say_bits(struct gf_textbuf *out, const uint64_t *word, size_t n)
{
    if (out->at >= out->size)
        return;
    const char *list = gf_bits_format(word, n, out->buf + out->at, out->size - out->at);
    const size_t length = strlen(list);
    const bool cut = length >= 3 && strcmp(list + length - 3, "...") == 0;
    out->at += cut ? out->size : length;
}

int gf_hint_format(const struct gf_hint *hint, char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};

    gf_say(&out, "%sv1;pid=%d;was=", entry_prefix, hint->pid);
    say_bits(&out, GF_WORDS(&hint->was));
    gf_say(&out, ";set=");
    say_bits(&out, GF_WORDS(&hint->set));
    gf_say(&out, ";policy=%s;nodes=", gf_mempolicy_name(hint->policy));
    say_bits(&out, GF_WORDS(&hint->nodes));
    return out.at < size ? (int)out.at : -ENOSPC;
}

/*
 * Expects "name=value;" at *at. Terminates and returns the value, and moves *at past the field.
 * Returns "?" if the field is missing.
 */
static const char *take_field(char **at, const char *name)
{
    const size_t length = strlen(name);
    char *value = *at;
    if (!value || strncmp(value, name, length) != 0 || value[length] != '=') {
        *at = NULL;
        return "?"; /* "?" is not a valid value of any field */
    }
    value += length + 1;
    char *end = value + strcspn(value, ";");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return value;
}

static int parse_policy(const char *text, int *ret)
{
    static const int policies[] = {MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, GF_MPOL_PREFERRED_MANY};

    for (size_t i = 0; i < GF_ARRAY_LEN(policies); i++)
        if (strcmp(text, gf_mempolicy_name(policies[i])) == 0) {
            *ret = policies[i];
            return 0;
        }
    return -EINVAL;
}

static int parse_fields(char *at, struct gf_hint *hint)
{
    uint64_t pid;

    if (gf_parse_u64(take_field(&at, "v1;pid"), &pid) || pid > INT32_MAX ||
        gf_set_parse(take_field(&at, "was"), &hint->was) ||
        gf_set_parse(take_field(&at, "set"), &hint->set) ||
        parse_policy(take_field(&at, "policy"), &hint->policy) ||
        gf_set_parse(take_field(&at, "nodes"), &hint->nodes) || !at || *at)
        return -EINVAL;
    hint->pid = (pid_t)pid;
    if (gf_set_empty(&hint->was) || gf_set_empty(&hint->set) ||
        (hint->policy == MPOL_DEFAULT) != gf_set_empty(&hint->nodes))
        return -EINVAL;
    return 0;
}

int gf_hint_parse(const char *value, struct gf_hint *ret)
{
    struct gf_hint hint = {0};
    char *copy = strlen(value) < GF_HINT_MAX ? strdup(value) : NULL;
    if (!copy)
        return -EINVAL;
    const int error = parse_fields(copy, &hint);
    free(copy);
    if (!error)
        *ret = hint;
    return error;
}

int gf_hint_read(char *const *envp, struct gf_hint *ret)
{
    const char *value = gf_launch_variable(envp, GF_NAME_BOUND);

    return value ? gf_hint_parse(value, ret) : -ENOENT;
}

/*
 * Returns a copy of envp without the entry that has this prefix, plus `entry` if it is not NULL.
 * Returns NULL if memory is exhausted.
 */
static char **copy_environment(char *const *envp, size_t count, const char *prefix, char *entry)
{
    char **copy = malloc((count + 2) * sizeof(*copy));
    size_t at = 0;
    if (!copy)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!gf_begins(envp[i], prefix))
            copy[at++] = envp[i];
    if (entry)
        copy[at++] = entry;
    copy[at] = NULL;
    return copy;
}

/*
 * Whether the copy still equals the original vector, which setenv in another thread may change in
 * place. The elements of the vector belong to libc, so they are not C11 atomics.
 */
static bool still_copied(char *const *old, size_t count, const char *prefix, char *const *copy)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        char *entry = __atomic_load_n(&old[i], __ATOMIC_ACQUIRE);
        if (!entry)
            return false;
        if (!gf_begins(entry, prefix) && entry != copy[at++])
            return false;
    }
    return !old || !__atomic_load_n(&old[count], __ATOMIC_ACQUIRE);
}

static char *make_entry(const struct gf_hint *hint)
{
    char *entry = malloc(GF_HINT_MAX);
    if (!entry)
        return NULL;
    const int length = gf_hint_format(hint, entry, GF_HINT_MAX);
    char *fitting = realloc(entry, (size_t)length + 1);
    return fitting ? fitting : entry;
}

/* Takes over the entry; NULL: only removes the present one. */
static void replace(const char *prefix, char *entry)
{
    for (int tries = 0; tries < 8; tries++) {
        char **old = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
        size_t count = 0;
        while (old && old[count])
            count++;
        char **copy = copy_environment(old, count, prefix, entry);
        /*
         * The lock of setenv is internal to libc, so this code cannot take it. Instead, it compares
         * the copy with the original, and copies again if they differ.
         */
        if (copy && still_copied(old, count, prefix, copy) &&
            __atomic_compare_exchange_n(&environ, &old, copy, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return;
        free(copy);
    }
    free(entry);
}

void gf_hint_publish(const struct gf_hint *hint)
{
    char *entry = hint ? make_entry(hint) : NULL;

    if (entry || !hint)
        replace(entry_prefix, entry);
}

void gf_hint_publish_engine(pid_t pid)
{
    char entry[sizeof(engine_prefix) + 16];

    gf_fmt(entry, sizeof(entry), "%s%d", engine_prefix, pid);
    char *copy = strdup(entry);
    if (copy)
        replace(engine_prefix, copy);
}
