/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_input.h"

#include "base/input_file.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define LEVELS 8
#define NAMES_MOST ((size_t)2 * GF_SOURCES_MAX) /* in all folders */

/* `status` is NULL if the file is unknown. */
static int append(struct gf_sources *sources, const char *path, bool is_named,
                  const struct stat *status)
{
    if (sources->count == GF_SOURCES_MAX)
        return -EFBIG;
    *GF_JOB_ADD(sources->list, sources->count) =
        (struct gf_source){gf_cli_memory(strdup(path)), is_named, status ? status->st_dev : 0,
                           status ? status->st_ino : 0};
    return 0;
}

static int add_folder(struct gf_sources *sources, const char *path, unsigned levels);

static int add_member(struct gf_sources *sources, const char *folder, const char *name,
                      unsigned levels)
{
    GF_OWNED char *path = NULL;
    struct stat status;
    int result = 0;

    if (*name == '.')
        return 0;
    gf_cli_memory(asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path);
    /* Only links to files are followed: a link to a folder may form a cycle. */
    if (lstat(path, &status))
        result = 0;
    else if (S_ISDIR(status.st_mode) && levels)
        result = add_folder(sources, path, levels - 1);
    else if (!S_ISDIR(status.st_mode) && stat(path, &status) == 0 && S_ISREG(status.st_mode))
        result = append(sources, path, false, &status);
    return result == -EFBIG ? result : 0;
}

/* Whether the kernel makes up the folder's files, as in /proc and /sys. */
static bool is_of_kernel(const char *path)
{
    struct statfs status;

    return statfs(path, &status) == 0 &&
           (status.f_type == PROC_SUPER_MAGIC || status.f_type == SYSFS_MAGIC);
}

GF_COMPARATOR(by_name, __typeof__(char *), strcmp(*one, *other))

/* Names are counted before they are sorted: a folder of a FUSE file system may have no end. */
static int add_folder(struct gf_sources *sources, const char *path, unsigned levels)
{
    GF_OWNED char **names = NULL;
    size_t count = 0;

    if (is_of_kernel(path))
        return 0;
    GF_FOLDER(folder, path);
    int result = folder.entries ? 0 : -errno;
    for (const struct dirent *entry; !result && (errno = 0, entry = readdir(folder.entries));) {
        result = sources->names++ < NAMES_MOST ? 0 : -EFBIG;
        *GF_JOB_ADD(names, count) = gf_cli_memory(strdup(entry->d_name));
    }
    result = result ? result : -errno;
    if (count)
        qsort(names, count, sizeof(*names), by_name);
    for (size_t i = 0; i < count; i++) {
        if (!result)
            result = add_member(sources, path, names[i], levels);
        free(names[i]);
    }
    return result;
}

int gf_sources_add(struct gf_sources *sources, const char *path)
{
    struct stat status;

    const bool is_known = strcmp(path, "-") != 0 && stat(path, &status) == 0;
    if (is_known && S_ISDIR(status.st_mode))
        return add_folder(sources, path, LEVELS);
    return append(sources, path, true, is_known && S_ISREG(status.st_mode) ? &status : NULL);
}

void gf_sources_drop_repeated(struct gf_sources *sources)
{
    struct gf_text_pool files = {0};
    size_t *firsts = NULL, room = 0, kept = 0; /* firsts: the kept source of each file */
    bool is_new;

    for (size_t i = 0; i < sources->count; i++) {
        struct gf_source *source = &sources->list[i];
        const uint64_t file[] = {source->device, source->inode};
        if (source->inode) {
            const uint32_t number =
                gf_text_pool_add(&files, (const char *)file, sizeof(file), &is_new);
            size_t *first = GF_POOL_SLOT(firsts, number, room);
            if (!is_new) {
                sources->list[*first].is_named |= source->is_named;
                free(source->path);
                sources->repeated++;
                continue;
            }
            *first = kept;
        }
        sources->list[kept++] = *source;
    }
    sources->count = kept;
    gf_text_pool_free(&files);
    free(firsts);
}

int gf_source_open(const struct gf_source *source)
{
    if (source->is_named && strcmp(source->path, "-") == 0) {
        const int copy = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        return copy < 0 ? -errno : copy;
    }
    return source->is_named ? gf_input_open_or_pipe(source->path) : gf_input_open(source->path);
}

const char *gf_source_reason(int error)
{
    return error == -EINVAL
               ? "it is no regular file outside /proc and /sys, and no pipe of this user"
               : strerror(-error);
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
