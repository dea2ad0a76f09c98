/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/sources.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEVELS 8

static int append(struct gf_sources *sources, const char *path, bool is_named)
{
    if (sources->count == sources->room) {
        const size_t room = sources->room ? 2 * sources->room : 16;
        struct gf_source *list = reallocarray(sources->list, room, sizeof(*list));
        if (!list)
            return -ENOMEM;
        sources->list = list;
        sources->room = room;
    }
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    sources->list[sources->count++] = (struct gf_source){copy, is_named};
    return 0;
}

static int add_folder(struct gf_sources *sources, const char *path, unsigned levels);

static int add_member(struct gf_sources *sources, const char *folder, const char *name,
                      unsigned levels)
{
    char *path;
    struct stat status;
    int result = 0;

    if (*name == '.' || asprintf(&path, "%s/%s", folder, name) < 0)
        return *name == '.' ? 0 : -ENOMEM;
    /* Only links to files are followed: a link to a folder may form a cycle. */
    if (lstat(path, &status))
        result = 0;
    else if (S_ISDIR(status.st_mode) && levels)
        result = add_folder(sources, path, levels - 1);
    else if (!S_ISDIR(status.st_mode) && stat(path, &status) == 0 && S_ISREG(status.st_mode))
        result = append(sources, path, false);
    free(path);
    return result == -ENOMEM ? result : 0;
}

static int add_folder(struct gf_sources *sources, const char *path, unsigned levels)
{
    struct dirent **names;
    const int count = scandir(path, &names, NULL, alphasort);
    int result = count < 0 ? -errno : 0;

    for (int i = 0; i < count; i++) {
        if (!result)
            result = add_member(sources, path, names[i]->d_name, levels);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return result;
}

int gf_sources_add(struct gf_sources *sources, const char *path)
{
    struct stat status;

    if (strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return add_folder(sources, path, LEVELS);
    return append(sources, path, true);
}

int gf_source_open(const struct gf_source *source)
{
    if (source->is_named && strcmp(source->path, "-") == 0) {
        const int copy = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        return copy < 0 ? -errno : copy;
    }
    const int fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

const char *gf_source_name(const struct gf_source *source)
{
    return source->is_named && strcmp(source->path, "-") == 0 ? "standard input" : source->path;
}

void gf_sources_free(struct gf_sources *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        free(sources->list[i].path);
    free(sources->list);
    *sources = (struct gf_sources){0};
}
