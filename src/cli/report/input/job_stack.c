/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/job_stack.h"

#include "base/path.h"
#include "cli/report/input/frame_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 128

/* A stack that is being read; the innermost frame is the first one. */
struct frames {
    uint32_t list[FRAMES_MAX];
    uint32_t count;
    /* Indexes in `list` of the two innermost frames of the program's own code. */
    uint32_t own[2], own_count;
};

/* Whether the file belongs to Python itself or to an installed package. */
static bool is_library(const char *file)
{
    const char *lib = strstr(file, "/lib/python");

    return *file == '<' || lib || strstr(file, "/site-packages/") ||
           strstr(file, "/dist-packages/");
}

/*
 * Whether the object is a run-time library, whose frames do not show which part of the program made
 * the call.
 */
static bool is_runtime(const char *path)
{
    static const char *const names[] = {"ld-linux", "libc.so",    "libc-",
                                        "libm.so",  "libpthread", "libstdc++",
                                        "libgcc_s", "libgpufeed", "libcuda.so"};
    const char *name = gf_path_file_name(path);

    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void add_frame(struct gf_job *job, struct frames *frames, const char *text, bool is_own)
{
    if (frames->count == FRAMES_MAX)
        return;
    if (is_own && frames->own_count < GF_ARRAY_LEN(frames->own))
        frames->own[frames->own_count++] = frames->count;
    frames->list[frames->count++] = gf_text_pool_put(&job->texts, text);
}

static void read_python_frame(struct gf_job *job, struct frames *frames, struct gf_span frame)
{
    struct gf_python_text python;
    char text[1600];

    gf_frame_python(frame, &python);
    snprintf(text, sizeof(text), "%s:%lld in %s", gf_path_file_name(python.file), python.line,
             python.function);
    add_frame(job, frames, text, !is_library(python.file));
}

static void read_native_frame(struct gf_job *job, struct frames *frames, struct gf_span frame)
{
    char text[1600], path[1024];

    if (gf_frame_name_of(frame, false, text, sizeof(text), path))
        add_frame(job, frames, text, !is_runtime(path));
}

static void read_frames(struct gf_job *job, struct frames *frames, const struct gf_event *event)
{
    const bool is_python = event->python.size > 2;
    struct gf_scan scan = gf_scan_begin(is_python ? event->python : event->stack, '[');
    struct gf_span frame;

    if (!is_python)
        gf_frame_modules(event->modules);
    while (frames->count < FRAMES_MAX && gf_scan_element(&scan, &frame)) {
        if (is_python)
            read_python_frame(job, frames, frame);
        else
            read_native_frame(job, frames, frame);
    }
}

/*
 * Adds a stack to the job in reverse order, because in a job the innermost frame is the last one.
 */
static uint32_t append(struct gf_job *job, const struct frames *frames)
{
    struct gf_job_stack *list =
        gf_job_grown(job->stacks, sizeof(*list), job->stack_count, &job->stack_room);
    const size_t first = job->frame_count;

    if (!list)
        return UINT32_MAX;
    job->stacks = list;
    for (uint32_t i = frames->count; i-- > 0;) {
        uint32_t *at = gf_job_grown(job->frames, sizeof(*at), job->frame_count, &job->frame_room);
        if (!at)
            return UINT32_MAX;
        job->frames = at;
        at[job->frame_count++] = frames->list[i];
    }
    list[job->stack_count] = (struct gf_job_stack){
        .site = frames->count ? frames->list[frames->own_count ? frames->own[0] : 0] : 0,
        .caller = frames->own_count > 1 ? frames->list[frames->own[1]] : 0,
        .frame = (uint32_t)first,
        .count = frames->count,
    };
    return (uint32_t)job->stack_count++;
}

/*
 * Returns the bytes of the event that contain the stack. The two spans of a native stack are joined
 * in buf.
 */
static struct gf_span stack_text(const struct gf_event *event, char *buf, size_t size)
{
    struct gf_span text = {"", 0};

    if (event->python.size > 2)
        return event->python;
    if (event->stack.size > 2 && event->stack.size + event->modules.size <= size) {
        memcpy(buf, event->stack.at, event->stack.size);
        if (event->modules.size)
            memcpy(buf + event->stack.size, event->modules.at, event->modules.size);
        text = (struct gf_span){buf, event->stack.size + event->modules.size};
    }
    return text;
}

uint32_t gf_job_stack_of(struct gf_job *job, const struct gf_event *event)
{
    static char buf[64 << 10];
    const struct gf_span text = stack_text(event, buf, sizeof(buf));
    struct frames frames;
    bool is_new;
    uint32_t number;

    /* The pool's first two strings are "" and the key of empty stacks. */
    if (!job->stack_count) {
        frames = (struct frames){.count = 0};
        gf_text_pool_add(&job->stack_keys, "-", 1, &is_new);
        append(job, &frames);
    }
    if (!text.size)
        return job->stack_count ? 0 : UINT32_MAX;
    number = gf_text_pool_add(&job->stack_keys, text.at, text.size, &is_new);
    if (!is_new)
        return number && number <= job->stack_count ? number - 1 : UINT32_MAX;
    frames.count = frames.own_count = 0;
    read_frames(job, &frames, event);
    number = append(job, &frames);
    return number;
}
