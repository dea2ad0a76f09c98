/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/frame_name.h"

#include "base/path.h"
#include "cli/report/input/elfsym.h"
#include "cli/report/input/text_pool.h"
#include "base/fmt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULES_MOST 64 /* of an event; the library writes at most GF_UNWIND_MODULES */

/*
 * The executables and libraries that logs name, each opened once. Two paths of the same build share
 * one table, so that a log cannot make the command sort a large table many times. A file is read
 * only if its build id is that of the log: otherwise its names would be wrong, and any file of this
 * host could be named.
 */
static struct {
    struct gf_text_pool keys, ids; /* path and id; id */
    struct gf_elfsym **files;  /* by the number of the key; NULL if missing or of another build */
    struct gf_elfsym **builds; /* by the number of the id */
    uint32_t room, build_room;
} objects;

/* The modules of the current event. */
static struct {
    char path[1024];
    struct gf_elfsym *file;
} modules[MODULES_MOST];
static size_t module_count;

static struct gf_elfsym **slot(struct gf_elfsym ***list, uint32_t *room, uint32_t number)
{
    if (number >= *room) {
        const uint32_t wanted = 2 * number + 64;
        struct gf_elfsym **grown = reallocarray(*list, wanted, sizeof(*grown));
        if (!grown)
            return NULL;
        memset(grown + *room, 0, (wanted - *room) * sizeof(*grown));
        *list = grown;
        *room = wanted;
    }
    return &(*list)[number];
}

static struct gf_elfsym *find_object(const char *path, const char *id)
{
    char key[1024 + 256 + 1];
    bool is_new, is_new_build;
    const int length = snprintf(key, sizeof(key), "%s %s", id, path);

    if (!*id)
        return NULL;
    const uint32_t number = gf_text_pool_add(&objects.keys, key, (size_t)length, &is_new);
    struct gf_elfsym **file = slot(&objects.files, &objects.room, number);
    if (!file || !is_new)
        return file ? *file : NULL;
    const uint32_t build = gf_text_pool_add(&objects.ids, id, strlen(id), &is_new_build);
    struct gf_elfsym **known = slot(&objects.builds, &objects.build_room, build);
    if (known && !*known)
        *known = gf_elfsym_open(path, id);
    return *file = known ? *known : NULL;
}

void gf_frame_modules(struct gf_span list)
{
    struct gf_scan scan = gf_scan_begin(list, '[');
    struct gf_span module, key, value;

    for (module_count = 0; module_count < MODULES_MOST && gf_scan_element(&scan, &module);
         module_count++) {
        char id[256] = "", *path = modules[module_count].path;
        struct gf_scan members = gf_scan_begin(module, '{');
        *path = '\0';
        while (gf_scan_member(&members, &key, &value)) {
            if (gf_span_is(key, "path"))
                gf_span_text(value, path, sizeof(modules->path));
            else if (gf_span_is(key, "build_id"))
                gf_span_text(value, id, sizeof(id));
        }
        modules[module_count].file = find_object(path, id);
    }
}

bool gf_frame_name_of(struct gf_span frame, bool with_distance, char *buf, size_t size,
                      char ret_path[1024])
{
    char text[64], *rest;
    uint64_t distance;

    gf_span_text(frame, text, sizeof(text));
    const unsigned long number = strtoul(text, &rest, 10);
    if (*rest != '+' || number >= module_count)
        return false;
    const uint64_t offset = strtoull(rest + 1, NULL, 16);
    const struct gf_elfsym *file = modules[number].file;
    const char *path = modules[number].path;
    const char *name = file ? gf_elfsym_function(file, offset, &distance) : NULL;
    if (name && with_distance)
        snprintf(buf, size, "%.1023s+%#llx (%s)", name, (unsigned long long)distance,
                 gf_path_file_name(path));
    else if (name)
        snprintf(buf, size, "%.1023s (%s)", name, gf_path_file_name(path));
    else
        snprintf(buf, size, "%s+%#llx", gf_path_file_name(path), (unsigned long long)offset);
    gf_plain_text(buf);
    if (ret_path)
        memcpy(ret_path, path, sizeof(modules->path));
    return true;
}

void gf_frame_name_end(void)
{
    for (uint32_t i = 0; i < objects.build_room; i++)
        if (objects.builds[i])
            gf_elfsym_close(objects.builds[i]);
    free(objects.builds);
    free(objects.files);
    gf_text_pool_free(&objects.keys);
    gf_text_pool_free(&objects.ids);
    memset(&objects, 0, sizeof(objects));
    module_count = 0;
}

void gf_frame_python(struct gf_span frame, struct gf_python_text *ret)
{
    struct gf_scan scan = gf_scan_begin(frame, '{');
    struct gf_span key, value;

    *ret->file = *ret->function = '\0';
    ret->line = 0;
    while (gf_scan_member(&scan, &key, &value)) {
        if (gf_span_is(key, "file"))
            gf_span_text(value, ret->file, sizeof(ret->file));
        else if (gf_span_is(key, "function"))
            gf_span_text(value, ret->function, sizeof(ret->function));
        else if (gf_span_is(key, "line"))
            ret->line = gf_span_int(value);
    }
}
