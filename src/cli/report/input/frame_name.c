/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/frame_name.h"

#include "base/path.h"
#include "cli/report/input/elfsym.h"
#include "base/plain_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An executable or library that a log names; opened once. */
struct object {
    char *path, *id;
    struct gf_elfsym *file; /* NULL if missing, or of another build */
    struct object *next;
};

static struct object *objects;

static struct gf_elfsym *find_object(const char *path, const char *id)
{
    struct object *at = objects;

    while (at && (strcmp(at->path, path) != 0 || strcmp(at->id, id) != 0))
        at = at->next;
    if (at)
        return at->file;
    at = calloc(1, sizeof(*at));
    if (!at)
        return NULL;
    at->path = strdup(path);
    at->id = strdup(id);
    if (!at->path || !at->id) {
        free(at->path);
        free(at->id);
        free(at);
        return NULL;
    }
    at->file = gf_elfsym_open(path, id);
    at->next = objects;
    objects = at;
    return at->file;
}

static void write_frame(const char *path, const char *build_id, uint64_t offset, bool with_distance,
                        char *buf, size_t size)
{
    uint64_t distance;
    const struct gf_elfsym *file = find_object(path, build_id);
    const char *name = file ? gf_elfsym_function(file, offset, &distance) : NULL;

    if (name && with_distance)
        snprintf(buf, size, "%.1023s+%#llx (%s)", name, (unsigned long long)distance,
                 gf_path_file_name(path));
    else if (name)
        snprintf(buf, size, "%.1023s (%s)", name, gf_path_file_name(path));
    else
        snprintf(buf, size, "%s+%#llx", gf_path_file_name(path), (unsigned long long)offset);
    gf_plain_text(buf);
}

static bool find_module(struct gf_span modules, unsigned long wanted, struct gf_span *ret)
{
    struct gf_scan scan = gf_scan_begin(modules, '[');

    for (unsigned long i = 0; gf_scan_element(&scan, ret); i++)
        if (i == wanted)
            return true;
    return false;
}

bool gf_frame_name_of(struct gf_span modules, struct gf_span frame, bool with_distance, char *buf,
                      size_t size, char ret_path[1024])
{
    char text[64], path[1024] = "", id[256] = "", *rest;
    struct gf_span module, key, value;

    gf_span_text(frame, text, sizeof(text));
    const unsigned long number = strtoul(text, &rest, 10);
    if (*rest != '+' || !find_module(modules, number, &module))
        return false;
    const uint64_t offset = strtoull(rest + 1, NULL, 16);
    struct gf_scan scan = gf_scan_begin(module, '{');
    while (gf_scan_member(&scan, &key, &value)) {
        if (gf_span_is(key, "path"))
            gf_span_text(value, path, sizeof(path));
        else if (gf_span_is(key, "build_id"))
            gf_span_text(value, id, sizeof(id));
    }
    write_frame(path, id, offset, with_distance, buf, size);
    if (ret_path)
        memcpy(ret_path, path, sizeof(path));
    return true;
}

void gf_frame_name_end(void)
{
    while (objects) {
        struct object *at = objects;
        objects = at->next;
        if (at->file)
            gf_elfsym_close(at->file);
        free(at->path);
        free(at->id);
        free(at);
    }
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
