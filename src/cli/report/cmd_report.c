/* SPDX-License-Identifier: Apache-2.0 */
/* Prints logs (docs/log.md) as text. */
#include "cli/report/cmd_report.h"

#include "cli/common/cli.h"
#include "cli/common/flags.h"
#include "cli/report/bus_error.h"
#include "cli/report/elfsym.h"
#include "cli/report/plain_text.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The first lines need not be events, because a log may have been cut there. */
#define FOREIGN_MAX 3

/* An object named in a log, looked up once. */
struct object {
    char *path, *id;
    struct gf_elfsym *file; /* NULL if missing, or of another build */
    struct object *next;
};

static struct object *objects;

static void print_help(void)
{
    puts("Usage: gpufeed report LOG...\n\n"
         "Shows the events of logs (GPUFEED_LOG) as text. If LOG is -, reads standard input. In a\n"
         "native stack, a function has a name only if its executable or library is unchanged.\n"
         "Reports (GPUFEED_REPORT) are not shown: they are JSON for other tools.");
}

static const char *event_text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? gf_plain_text((char *)(uintptr_t)value) : "";
}

static long long event_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

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

static void free_objects(void)
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

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *plain_copy(const char *name, char *text, size_t size)
{
    snprintf(text, size, "%s", name);
    return gf_plain_text(text);
}

/* "3+1a2b": object 3 of the event's modules, offset 0x1a2b. */
static void print_frame(const json_t *modules, const char *frame)
{
    char *rest;
    const json_t *module = json_array_get(modules, strtoul(frame, &rest, 10));
    const char *path = event_text(module, "path");
    uint64_t distance;

    if (*rest != '+')
        return;
    const uint64_t offset = strtoull(rest + 1, NULL, 16);
    const struct gf_elfsym *file = find_object(path, event_text(module, "build_id"));
    const char *name = file ? gf_elfsym_function(file, offset, &distance) : NULL;
    char text[1024];
    if (name)
        printf("      %s+%#llx (%s)\n", plain_copy(name, text, sizeof(text)),
               (unsigned long long)distance, base_name(path));
    else
        printf("      %s+%#llx\n", base_name(path), (unsigned long long)offset);
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
    else
        puts(event_text(event, "text"));
    if (event_number(event, "dropped"))
        printf("  (%lld lines before it were dropped)\n", event_number(event, "dropped"));
}

/* False if the line is not an event. */
static bool print_line(const char *line)
{
    json_t *event = json_loads(line, 0, NULL);
    const bool is_event = json_is_object(event);

    if (is_event)
        print_event(event);
    json_decref(event);
    return is_event;
}

/* Called for a file with `bad` lines and no event. If it is not a log, reports that; true then. */
static bool is_foreign(const char *path, const char *line, unsigned bad)
{
    if (bad == 1 && strcmp(line, "{\n") == 0)
        gf_cli_error("report", "%s is a report (GPUFEED_REPORT), not a log (GPUFEED_LOG)", path);
    else if (bad > FOREIGN_MAX)
        gf_cli_error("report", "%s is not a log (GPUFEED_LOG)", path);
    else
        return false;
    return true;
}

static int print_events(FILE *file, const char *path)
{
    char *line = NULL;
    size_t size = 0;
    unsigned at = 0, events = 0, bad = 0;
    bool foreign = false;

    while (!foreign && getline(&line, &size, file) > 0) {
        at++;
        if (strcmp(line, "\n") == 0)
            continue; /* the rest of a line that another process cut */
        if (print_line(line))
            events++;
        else if (!(foreign = !events && is_foreign(path, line, ++bad)))
            gf_cli_error("report", "%s:%u is not an event", path, at);
    }
    const int error = ferror(file) ? errno : 0;
    free(line);
    if (error)
        gf_cli_error("report", "cannot read %s: %s", path, strerror(error));
    return foreign || error ? GF_EXIT_FAILED : GF_EXIT_OK;
}

static bool is_input(const char *path)
{
    return strcmp(path, "-") == 0;
}

static int print_log(const char *path)
{
    if (is_input(path))
        return print_events(stdin, "standard input");
    FILE *file = fopen(path, "re");

    if (!file) {
        gf_cli_error("report", "cannot read %s: %s", path, strerror(errno));
        return GF_EXIT_FAILED;
    }
    const int code = print_events(file, path);
    fclose(file);
    return code;
}

int gf_cmd_report(int argc, char **argv)
{
    static const struct option flags[] = {{"help", no_argument, NULL, GF_FLAG_HELP}, {0}};
    struct gf_flags reader = {argc, argv, flags, 0, NULL};
    int exit_code = GF_EXIT_OK;

    switch (gf_flags_next(&reader)) {
    case GF_FLAG_END:
        break;
    case GF_FLAG_HELP:
        print_help();
        return GF_EXIT_OK;
    default:
        return GF_EXIT_USAGE;
    }
    if (reader.at == argc) {
        gf_cli_error("report", "no log to show: gpufeed report LOG...");
        return GF_EXIT_USAGE;
    }
    gf_bus_error_survive();
    for (int i = reader.at; i < argc; i++)
        if (print_log(argv[i]) != GF_EXIT_OK)
            exit_code = GF_EXIT_FAILED;
    free_objects();
    return exit_code;
}
