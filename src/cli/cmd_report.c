/* SPDX-License-Identifier: Apache-2.0 */
/* Logs (docs/log.md) as text. */
#include "cli/cli.h"
#include "cli/elfsym.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOREIGN_MOST 3 /* lines of something else at the start: a log may have been cut there */

struct known {
    char *path, *id;
    struct gf_elf *elf; /* NULL: not there, or another build */
    struct known *next;
};

static struct known *objects;

static void help(void)
{
    puts("Usage: gpufeed report LOG...\n\n"
         "Shows the events of logs (GPUFEED_LOG) as text, functions by name where the files that\n"
         "the processes ran are still the same. LOG may be -, which is standard input. A report\n"
         "(GPUFEED_REPORT) is JSON to be read as it is.");
}

/* As a terminal may be given it: a thread's name, say, can hold what takes one over. */
static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    for (char *p = (char *)(uintptr_t)value; p && *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return value ? value : "";
}

static long long number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static struct gf_elf *find_object(const char *path, const char *id)
{
    struct known *at = objects;

    while (at && (strcmp(at->path, path) != 0 || strcmp(at->id, id) != 0))
        at = at->next;
    if (at)
        return at->elf;
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
    at->elf = gf_elf_open(path, id);
    at->next = objects;
    objects = at;
    return at->elf;
}

static void forget_objects(void)
{
    while (objects) {
        struct known *at = objects;
        objects = at->next;
        if (at->elf)
            gf_elf_close(at->elf);
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

/* "3+1a2b": the third of modules, and the offset in it. */
static void print_frame(const json_t *modules, const char *frame)
{
    char *rest;
    const json_t *module = json_array_get(modules, strtoul(frame, &rest, 10));
    const char *path = text(module, "path");
    uint64_t distance;

    if (*rest != '+')
        return;
    const uint64_t offset = strtoull(rest + 1, NULL, 16);
    const struct gf_elf *elf = find_object(path, text(module, "build_id"));
    const char *name = elf ? gf_elf_function(elf, offset, &distance) : NULL;
    if (name)
        printf("      %s+%#llx (%s)\n", name, (unsigned long long)distance, base_name(path));
    else
        printf("      %s+%#llx\n", base_name(path), (unsigned long long)offset);
}

static void print_python(const json_t *frames)
{
    size_t i;
    json_t *frame;

    json_array_foreach(frames, i, frame)
        printf("    %s:%lld in %s\n", text(frame, "file"), number(frame, "line"),
               text(frame, "function"));
}

/* "GPU 1 0000:81:00.0, block on node 0", where the event has it. */
static void print_place(const json_t *event)
{
    const json_t *gpu = json_object_get(event, "gpu"), *node = json_object_get(event, "block_node");

    if (json_is_integer(json_object_get(event, "node")))
        printf(", on node %lld", number(event, "node"));
    if (json_is_integer(node))
        printf(", block on node %lld", number(event, "block_node"));
    if (json_is_object(gpu))
        printf(", GPU %lld %s", number(gpu, "device"), text(gpu, "pci"));
}

static void print_stall(const json_t *event)
{
    const json_t *size = json_object_get(event, "size"), *step = json_object_get(event, "step");
    size_t i;
    json_t *frame;

    printf("%s", text(event, "call"));
    if (size)
        printf("(%lld)", (long long)json_integer_value(size));
    printf(" took %.3f ms: %s, %s", (double)number(event, "us") / 1000, text(event, "cause"),
           text(event, "evidence"));
    if (step)
        printf(", in step %lld", (long long)json_integer_value(step));
    printf(" [%s %lld", text(event, "thread"), number(event, "tid"));
    print_place(event);
    puts("]");
    print_python(json_object_get(event, "python"));
    json_array_foreach(json_object_get(event, "stack"), i, frame)
        print_frame(json_object_get(event, "modules"),
                    json_string_value(frame) ? json_string_value(frame) : "");
}

static void print_threads(const json_t *event)
{
    size_t i;
    json_t *thread;

    printf("in %.1f s", (double)number(event, "interval_ms") / 1000);
    if (number(event, "throttled_ms"))
        printf(", for %lld ms of which the group was throttled", number(event, "throttled_ms"));
    puts("");
    json_array_foreach(json_object_get(event, "threads"), i, thread)
        printf("    %s %lld ran %lld ms, waited %lld for a CPU (%lld or less for the quota), took %lld for "
               "%lld page faults; %lld from a disk\n",
               text(thread, "thread"), number(thread, "tid"), number(thread, "run_ms"),
               number(thread, "delay_ms"), number(thread, "throttled_ms"), number(thread, "fault_ms"),
               number(thread, "minor_faults"), number(thread, "major_faults"));
}

static void print_process(const json_t *event)
{
    printf("%s", text(event, "program"));
    if (number(event, "rank") >= 0)
        printf(", rank %lld", number(event, "rank"));
    printf(" on %s", text(event, "host"));
    if (*text(event, "container"))
        printf(", container %.12s", text(event, "container"));
    puts("");
}

/* The times of day that follow are of this day, and of this place: a job runs for days, its log is read elsewhere. */
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
    printf("%s.%03d %lld %s: ", when, (int)((at - (double)second) * 1000), number(event, "pid"),
           text(event, "event"));
    if (strcmp(text(event, "event"), "stall") == 0)
        print_stall(event);
    else if (strcmp(text(event, "event"), "process") == 0)
        print_process(event);
    else if (strcmp(text(event, "event"), "threads") == 0)
        print_threads(event);
    else
        puts(text(event, "text"));
    if (number(event, "left_out"))
        printf("  (%lld more before it were left out)\n", number(event, "left_out"));
}

/* False if it is no event. */
static bool print_line(const char *line)
{
    json_t *event = json_loads(line, 0, NULL);
    const bool is_event = json_is_object(event);

    if (is_event)
        print_event(event);
    json_decref(event);
    return is_event;
}

/* Said of a file that has had no event yet, and bad lines that are none. */
static bool is_no_log(const char *path, const char *line, unsigned bad)
{
    if (bad == 1 && strcmp(line, "{\n") == 0)
        gf_cli_error("report", "%s is no log: a report (GPUFEED_REPORT) is JSON to be read as it is",
                     path);
    else if (bad > FOREIGN_MOST)
        gf_cli_error("report", "%s is no log (GPUFEED_LOG)", path);
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
            continue; /* behind a line that was cut, in another file */
        if (print_line(line))
            events++;
        else if (!(foreign = !events && is_no_log(path, line, ++bad)))
            gf_cli_error("report", "%s:%u is no event", path, at);
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
    int exit_code = GF_EXIT_OK;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        help();
        return GF_EXIT_OK;
    }
    if (argc < 2 || (*argv[1] == '-' && !is_input(argv[1]))) {
        gf_cli_error("report", argc < 2 ? "which log? gpufeed report LOG..." : "%s is not understood", argv[1]);
        return GF_EXIT_USAGE;
    }
    for (int i = 1; i < argc; i++)
        if (print_log(argv[i]) != GF_EXIT_OK)
            exit_code = GF_EXIT_FAILED;
    forget_objects();
    return exit_code;
}
