/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/ld_preload.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY_FILE "libgpufeed.so"

/* The folder of the running command, without a trailing slash. 0 or -ENOENT. */
static int own_folder(char *ret, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", ret, size - 1);
    if (length <= 0)
        return -ENOENT;
    ret[length] = '\0';
    char *slash = strrchr(ret, '/');
    if (!slash)
        return -ENOENT;
    *slash = '\0';
    return 0;
}

int gf_ld_preload_find(char *ret, size_t size)
{
    static const char *const places[] = {
        GF_LIBDIR_FROM_BINDIR, /* installed */
        "../lib",              /* a bundle */
        "../preload",          /* a build tree */
    };
    char folder[PATH_MAX], candidate[PATH_MAX], real[PATH_MAX];

    if (own_folder(folder, sizeof(folder)))
        return -ENOENT;
    for (size_t i = 0; i < GF_ARRAY_LEN(places); i++) {
        const int length =
            snprintf(candidate, sizeof(candidate), "%s/%s/" LIBRARY_FILE, folder, places[i]);
        if (length >= (int)sizeof(candidate) || !realpath(candidate, real) || strlen(real) >= size)
            continue;
        strcpy(ret, real);
        return strpbrk(real, " :$") ? -EINVAL : 0;
    }
    return -ENOENT;
}

static bool is_library(const char *entry, size_t length)
{
    const size_t name = sizeof(LIBRARY_FILE) - 1;

    return length >= name && strncmp(entry + length - name, LIBRARY_FILE, name) == 0 &&
           (length == name || entry[length - name - 1] == '/');
}

char *gf_ld_preload_join(const char *library, const char *present)
{
    static const char separators[] = " :"; /* as in the loader */
    const char *rest = present ? present : "";
    char *joined = malloc(strlen(library) + strlen(rest) + 2);

    if (!joined)
        return NULL;
    strcpy(joined, library);
    while (*(rest += strspn(rest, separators))) {
        const size_t length = strcspn(rest, separators);
        if (!is_library(rest, length))
            strncat(strcat(joined, ":"), rest, length);
        rest += length;
    }
    return joined;
}
