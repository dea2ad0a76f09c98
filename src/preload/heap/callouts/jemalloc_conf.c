/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/callouts/jemalloc_conf.h"

#include "base/fmt.h"
#include "preload/heap/jemalloc/jemalloc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char ignored[400]; /* longer texts are truncated */

static void keep_ignored(const char *text, size_t length)
{
    const size_t at = strlen(ignored);

    gf_fmt(ignored + at, sizeof(ignored) - at, "%s%.*s", at ? "; " : "", (int)length, text);
}

/*
 * jemalloc calls this for each line that it would print. Lines that do not concern a setting are
 * dropped.
 */
static void keep_message(void *closure, const char *text)
{
    static const char prefix[] = "<jemalloc>: ";

    (void)closure;
    if (strncmp(text, prefix, strlen(prefix)) == 0 && strstr(text, "onf "))
        keep_ignored(text + strlen(prefix), strcspn(text + strlen(prefix), "\n"));
}

void gf_conf_begin(void)
{
    je_malloc_message = keep_message;
}

void gf_conf_end(void)
{
    je_malloc_message = NULL;
}

const char *gf_conf_ignored(void)
{
    return ignored;
}

static bool is_without_effect(const char *item, size_t length)
{
    static const char *const names[] = {"abort_conf:", "confirm_conf:"};

    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        if (length >= strlen(names[i]) && strncmp(item, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/*
 * Removes the settings without effect, in place, and returns the new length. conf need not be
 * terminated.
 */
static size_t filter_conf(char *conf, size_t length)
{
    size_t kept = 0;

    for (size_t at = 0; at < length;) {
        const char *const comma = memchr(conf + at, ',', length - at);
        const size_t size = comma ? (size_t)(comma - conf) - at : length - at;
        if (!is_without_effect(conf + at, size)) {
            if (kept > 0)
                conf[kept++] = ',';
            memmove(conf + kept, conf + at, size);
            kept += size;
        }
        at += size + 1;
    }
    return kept;
}

/* Returns static memory, because jemalloc uses the text until it has started. */
char *gf_heap_getenv(const char *name)
{
    static char copy[1024];
    const char *const value = secure_getenv(name);
    size_t length = value ? strlen(value) : 0;

    if (!value)
        return NULL;
    if (length >= sizeof(copy)) {
        static const char cut[] = "all text after the first 1023 characters";
        keep_ignored(cut, strlen(cut));
        for (length = sizeof(copy) - 1; length > 0 && value[length] != ','; length--)
            ;
    }
    memcpy(copy, value, length);
    copy[filter_conf(copy, length)] = '\0';
    return copy;
}

ssize_t gf_heap_readlink(const char *path, char *ret, size_t size)
{
    const ssize_t length = readlink(path, ret, size);

    return length > 0 ? (ssize_t)filter_conf(ret, (size_t)length) : length;
}
