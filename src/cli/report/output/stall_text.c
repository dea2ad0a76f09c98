/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/stall_text.h"

#include "cli/report/input/frame_name.h"
#include "cli/report/input/text_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The most bytes of keys in the cache of stack texts. The text of a stack that does not fit is made
 * again for each event.
 */
#define KEPT_BYTES ((size_t)16 << 20)

/* Cache of stack texts: a job has few different stacks. A key is the JSON text of a stack. */
static struct {
    struct gf_text_pool keys;
    char **texts; /* index: the key's number */
    size_t room;
} kept;

static void print_text(struct gf_span value)
{
    char text[1024];

    gf_span_text(value, text, sizeof(text));
    fputs(text, stdout);
}

/*
 * Prints the event's GPU and nodes, such as ", block on node 0, GPU 1 0000:81:00.0", as far as the
 * event has these fields.
 */
static void print_place(const struct gf_event *event)
{
    struct gf_scan scan = gf_scan_begin(event->gpu, '{');
    struct gf_span key, value, device = {"", 0}, pci = {"", 0};

    if (gf_span_is_number(event->node))
        printf(", on node %lld", (long long)gf_span_int(event->node));
    if (gf_span_is_number(event->block_node))
        printf(", block on node %lld", (long long)gf_span_int(event->block_node));
    if (!event->gpu.size || *event->gpu.at != '{')
        return;
    while (gf_scan_member(&scan, &key, &value)) {
        device = gf_span_is(key, "device") ? value : device;
        pci = gf_span_is(key, "pci") ? value : pci;
    }
    printf(", GPU %lld ", (long long)gf_span_int(device));
    print_text(pci);
}

static void put_python_frame(FILE *out, struct gf_span frame)
{
    struct gf_python_text text;

    gf_frame_python(frame, &text);
    fprintf(out, "    %s:%lld in %s\n", text.file, text.line, text.function);
}

static void put_frames(FILE *out, const struct gf_event *event)
{
    struct gf_scan python = gf_scan_begin(event->python, '['),
                   native = gf_scan_begin(event->stack, '[');
    struct gf_span frame;
    char text[2048];

    while (gf_scan_element(&python, &frame))
        put_python_frame(out, frame);
    gf_frame_modules(event->modules);
    while (gf_scan_element(&native, &frame))
        if (gf_frame_name_of(frame, true, text, sizeof(text), NULL))
            fprintf(out, "      %s\n", text);
}

static char *frames_text(const struct gf_event *event)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    put_frames(out, event);
    return fclose(out) ? NULL : text;
}

/* Returns the cache's entry for the event's stack; NULL if the cache is full or memory is short. */
static char **place_of(const struct gf_event *event)
{
    static char key[64 << 10];
    const struct gf_span parts[] = {event->python, event->stack, event->modules};
    size_t length = 0;
    bool is_new;

    for (size_t i = 0; i < GF_ARRAY_LEN(parts); i++) {
        if (length + parts[i].size > sizeof(key))
            return NULL;
        if (parts[i].size)
            memcpy(key + length, parts[i].at, parts[i].size);
        length += parts[i].size;
    }
    if (!length || kept.keys.bytes >= KEPT_BYTES)
        return NULL;
    const uint32_t number = gf_text_pool_add(&kept.keys, key, length, &is_new);
    while (number && number >= kept.room) {
        const size_t room = kept.room ? 2 * kept.room : 64;
        char **texts = reallocarray(kept.texts, room, sizeof(*texts));
        if (!texts)
            return NULL;
        memset(texts + kept.room, 0, (room - kept.room) * sizeof(*texts));
        kept.texts = texts;
        kept.room = room;
    }
    return number ? &kept.texts[number] : NULL;
}

static void print_frames(const struct gf_event *event)
{
    char **place = place_of(event);
    char *text = place && *place ? *place : frames_text(event);

    fputs(text ? text : "", stdout);
    if (place)
        *place = text;
    else
        free(text);
}

void gf_stall_text_print(const struct gf_event *event)
{
    print_text(event->call);
    if (event->size.size)
        printf("(%lld)", (long long)gf_span_int(event->size));
    printf(" took %.3f ms: ", (double)gf_span_int(event->us) / 1000);
    print_text(event->cause);
    fputs(", ", stdout);
    print_text(event->evidence);
    if (event->step.size)
        printf(", in step %lld", (long long)gf_span_int(event->step));
    fputs(" [", stdout);
    print_text(event->thread);
    printf(" %lld", (long long)gf_span_int(event->tid));
    print_place(event);
    puts("]");
    print_frames(event);
}

void gf_stall_text_end(void)
{
    for (size_t i = 0; i < kept.room; i++)
        free(kept.texts[i]);
    free(kept.texts);
    gf_text_pool_free(&kept.keys);
    kept.texts = NULL;
    kept.room = 0;
}
