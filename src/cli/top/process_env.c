/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/process_env.h"

#include "os/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)4 << 20)

static char *empty_list[] = {NULL};

/*
 * Reads a whole file of /proc, whose size is not known in advance. Returns NULL if the file is
 * empty or memory is short.
 */
static char *read_text(FILE *file, size_t *ret_size)
{
    char *text = NULL;
    size_t size = 0, room = 0, got = 1;

    while (got && size < TEXT_MAX) {
        if (size + 1 >= room) {
            char *grown = realloc(text, room = room ? 2 * room : 4096);
            if (!grown)
                break;
            text = grown;
        }
        got = fread(text + size, 1, room - size - 1, file);
        size += got;
    }
    if (text)
        text[size] = '\0';
    *ret_size = size;
    return text;
}

/* Makes a list of the variables in a text in which each variable ends with a zero byte. */
static char **list_of(char *text, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += !text[i];
    char **list = calloc(count + 2, sizeof(char *));
    count = 0;
    for (size_t at = 0; list && at < size; at += strlen(text + at) + 1)
        list[count++] = text + at;
    return list;
}

struct gf_process_env gf_process_env_read(pid_t pid)
{
    struct gf_process_env env = {.list = empty_list};
    char path[64];
    size_t size = 0;

    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return env;
    env.text = read_text(file, &size);
    fclose(file);
    char **list = env.text ? list_of(env.text, size) : NULL;
    if (list)
        env.list = list;
    return env;
}

void gf_process_env_free(struct gf_process_env *env)
{
    if (env->list != empty_list)
        free(env->list);
    free(env->text);
    *env = (struct gf_process_env){.list = empty_list};
}

bool gf_process_env_has_job(const struct gf_process_env *env, const char *job)
{
    for (size_t i = 0; gf_launch_job_variables[i]; i++) {
        const char *value = gf_launch_variable(env->list, gf_launch_job_variables[i]);
        if (value && strcmp(value, job) == 0)
            return true;
    }
    return false;
}
