/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/event_text.h"

#include "cli/report/input/frame_name.h"
#include "cli/report/input/plain_text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *event_text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? gf_plain_text((char *)(uintptr_t)value) : "";
}

static long long event_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* "3+1a2b": object 3 of the event's modules, offset 0x1a2b. */
static void print_frame(const json_t *modules, const char *frame)
{
    char *rest, text[2048];
    const json_t *module = json_array_get(modules, strtoul(frame, &rest, 10));

    if (*rest != '+')
        return;
    gf_frame_name(event_text(module, "path"), event_text(module, "build_id"),
                  strtoull(rest + 1, NULL, 16), true, text, sizeof(text));
    printf("      %s\n", text);
}

static void print_python(const json_t *frames)
{
    size_t i;
    json_t *frame;

    json_array_foreach(frames, i, frame)
        printf("    %s:%lld in %s\n", event_text(frame, "file"), event_number(frame, "line"),
               event_text(frame, "function"));
}

/* "GPU 1 0000:81:00.0, block on node 0", if the event has these fields. */
static void print_place(const json_t *event)
{
    const json_t *gpu = json_object_get(event, "gpu"), *node = json_object_get(event, "block_node");

    if (json_is_integer(json_object_get(event, "node")))
        printf(", on node %lld", event_number(event, "node"));
    if (json_is_integer(node))
        printf(", block on node %lld", event_number(event, "block_node"));
    if (json_is_object(gpu))
        printf(", GPU %lld %s", event_number(gpu, "device"), event_text(gpu, "pci"));
}

static void print_stall(const json_t *event)
{
    const json_t *size = json_object_get(event, "size"), *step = json_object_get(event, "step");
    size_t i;
    json_t *frame;

    printf("%s", event_text(event, "call"));
    if (size)
        printf("(%lld)", (long long)json_integer_value(size));
    printf(" took %.3f ms: %s, %s", (double)event_number(event, "us") / 1000,
           event_text(event, "cause"), event_text(event, "evidence"));
    if (step)
        printf(", in step %lld", (long long)json_integer_value(step));
    printf(" [%s %lld", event_text(event, "thread"), event_number(event, "tid"));
    print_place(event);
    puts("]");
    print_python(json_object_get(event, "python"));
    json_array_foreach(json_object_get(event, "stack"), i, frame)
        print_frame(json_object_get(event, "modules"),
                    json_string_value(frame) ? json_string_value(frame) : "");
}

static void print_thread(const json_t *thread)
{
    printf(
        "    %s %lld ran %lld ms, waited %lld ms for a CPU (at most %lld ms by the quota), spent "
        "%lld ms in %lld page faults; %lld pages were read from a disk\n",
        event_text(thread, "thread"), event_number(thread, "tid"), event_number(thread, "run_ms"),
        event_number(thread, "delay_ms"), event_number(thread, "throttled_ms"),
        event_number(thread, "fault_ms"), event_number(thread, "minor_faults"),
        event_number(thread, "major_faults"));
}

static void print_threads(const json_t *event)
{
    size_t i;
    json_t *thread;

    printf("in %.1f s", (double)event_number(event, "interval_ms") / 1000);
    if (event_number(event, "throttled_ms"))
        printf(", throttled for %lld ms", event_number(event, "throttled_ms"));
    puts("");
    json_array_foreach(json_object_get(event, "threads"), i, thread) print_thread(thread);
}

static void print_steps(const json_t *event)
{
    const json_t *steps = json_object_get(event, "steps"),
                 *times = json_object_get(event, "after_us");
    const size_t count = json_array_size(steps), last = json_array_size(times);

    printf("%zu marks in %.3f ms", count,
           last ? json_number_value(json_array_get(times, last - 1)) / 1000 : 0);
    if (count)
        printf(", from step %lld to %lld", (long long)json_integer_value(json_array_get(steps, 0)),
               (long long)json_integer_value(json_array_get(steps, count - 1)));
    puts("");
}

static void print_process(const json_t *event)
{
    printf("%s", event_text(event, "program"));
    if (event_number(event, "rank") >= 0)
        printf(", rank %lld", event_number(event, "rank"));
    printf(" on %s", event_text(event, "host"));
    if (*event_text(event, "container"))
        printf(", container %.12s", event_text(event, "container"));
    puts("");
}

/*
 * Prints the date with its UTC offset before the first event of each day: a job may run for days,
 * and its log may be read in another time zone.
 */
static void print_day(const struct tm *local)
{
    static char day[32];
    char now[32] = "";

    strftime(now, sizeof(now), "%F, UTC%z", local);
    if (strcmp(now, day) != 0)
        puts(now);
    memcpy(day, now, sizeof(day));
}

static void print_event(const json_t *event)
{
    const double told = json_number_value(json_object_get(event, "time"));
    const double at = told >= 0 && told < 1e12 ? told : 0;
    const time_t second = (time_t)at;
    struct tm local;
    char when[32] = "";

    if (localtime_r(&second, &local)) {
        print_day(&local);
        strftime(when, sizeof(when), "%H:%M:%S", &local);
    }
    printf("%s.%03d %lld %s: ", when, (int)((at - (double)second) * 1000),
           event_number(event, "pid"), event_text(event, "event"));
    if (strcmp(event_text(event, "event"), "stall") == 0)
        print_stall(event);
    else if (strcmp(event_text(event, "event"), "process") == 0)
        print_process(event);
    else if (strcmp(event_text(event, "event"), "threads") == 0)
        print_threads(event);
    else if (strcmp(event_text(event, "event"), "steps") == 0)
        print_steps(event);
    else
        puts(event_text(event, "text"));
    if (event_number(event, "dropped"))
        printf("  (%lld lines before it were dropped)\n", event_number(event, "dropped"));
}

bool gf_event_print(struct gf_span line)
{
    json_t *event = json_loadb(line.at, line.size, 0, NULL);
    const bool is_event = json_is_object(event);

    if (is_event)
        print_event(event);
    json_decref(event);
    return is_event;
}
