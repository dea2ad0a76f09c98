/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/report/outputs.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/*
 * Prints the date with its UTC offset before the first event of each day, because a job may run for
 * days, and a reader may be in another time zone.
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

static void print_head(double told, int64_t pid, const char *kind)
{
    const double at = told >= 0 && told < 1e12 ? told : 0;
    const time_t second = (time_t)at;
    struct tm local;
    char when[32] = "";

    if (localtime_r(&second, &local)) {
        print_day(&local);
        strftime(when, sizeof(when), "%H:%M:%S", &local);
    }
    printf("%s.%03d %ld %s: ", when, (int)((at - (double)second) * 1000), pid, kind);
}

static void print_dropped(int64_t count)
{
    if (count)
        printf("  (%ld lines before this line were dropped)\n", count);
}

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
        printf(", on node %ld", gf_span_int(event->node));
    if (gf_span_is_number(event->block_node))
        printf(", block on node %ld", gf_span_int(event->block_node));
    if (!event->gpu.size || *event->gpu.at != '{')
        return;
    while (gf_scan_member(&scan, &key, &value)) {
        device = gf_span_is(key, "device") ? value : device;
        pci = gf_span_is(key, "pci") ? value : pci;
    }
    printf(", GPU %ld ", gf_span_int(device));
    print_text(pci);
}

static void print_frames(const struct gf_event *event)
{
    struct gf_scan python = gf_scan_begin(event->python, '['),
                   native = gf_scan_begin(event->stack, '[');
    struct gf_python_text line;
    struct gf_span frame;
    char text[2048];
    unsigned count = 0;

    while (count++ < GF_FRAMES_MAX && gf_scan_element(&python, &frame)) {
        gf_frame_python(frame, &line);
        printf("    %s:%ld in %s\n", line.file, line.line, line.function);
    }
    gf_frame_modules(event->modules);
    while (count++ < GF_FRAMES_MAX && gf_scan_element(&native, &frame))
        if (gf_frame_name_of(frame, true, text, sizeof(text), NULL))
            printf("      %s\n", text);
}

/*
 * Prints a stall's call, cause, node and GPU, Python lines and native frames. Builds no JSON tree,
 * because nearly all lines are stalls.
 */
static void print_stall(const struct gf_event *event)
{
    print_head(gf_span_number(event->time), gf_span_int(event->pid), "stall");
    print_text(event->call);
    if (event->size.size)
        printf("(%ld)", gf_span_int(event->size));
    printf(" took %.3f ms: ", (double)gf_span_int(event->us) / 1000);
    print_text(event->cause);
    fputs(", ", stdout);
    print_text(event->evidence);
    if (event->step.size)
        printf(", in step %ld", gf_span_int(event->step));
    fputs(" [", stdout);
    print_text(event->thread);
    printf(" %ld", gf_span_int(event->tid));
    print_place(event);
    puts("]");
    print_frames(event);
    print_dropped(gf_span_int(event->dropped));
}

static const char *event_text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? gf_plain_text((char *)(uintptr_t)value) : "";
}

static int64_t event_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void print_thread(const json_t *thread)
{
    printf("    %s %ld ran %ld ms, waited %ld ms for a CPU (at most %ld ms by the quota), spent "
           "%ld ms in %ld page faults; %ld pages were read from a disk\n",
           event_text(thread, "thread"), event_number(thread, "tid"),
           event_number(thread, "run_ms"), event_number(thread, "delay_ms"),
           event_number(thread, "throttled_ms"), event_number(thread, "fault_ms"),
           event_number(thread, "minor_faults"), event_number(thread, "major_faults"));
}

static void print_threads(const json_t *event)
{
    size_t i;
    json_t *thread;

    printf("in %.1f s", (double)event_number(event, "interval_ms") / 1000);
    if (event_number(event, "throttled_ms"))
        printf(", throttled for %ld ms", event_number(event, "throttled_ms"));
    puts("");
    json_array_foreach(json_object_get(event, "threads"), i, thread)
        print_thread(thread);
}

static int64_t step_at(const json_t *steps, size_t i)
{
    return json_integer_value(json_array_get(steps, i));
}

/* A mark with the number 0 ends a step and begins none. */
static void print_steps(const json_t *event)
{
    const json_t *steps = json_object_get(event, "steps"),
                 *times = json_object_get(event, "after_us");
    const size_t count = json_array_size(steps), last = json_array_size(times);
    size_t first_step = 0, last_step = count;

    printf("%zu marks in %.3f ms", count,
           last ? json_number_value(json_array_get(times, last - 1)) / 1000 : 0);
    while (first_step < count && !step_at(steps, first_step))
        first_step++;
    while (last_step > first_step && !step_at(steps, last_step - 1))
        last_step--;
    if (first_step < last_step)
        printf(", from step %ld to %ld", step_at(steps, first_step), step_at(steps, last_step - 1));
    puts("");
}

/* Prints each GPU's time in milliseconds by state, and the sums of copies. */
static void print_activity(const json_t *event)
{
    size_t i;
    json_t *row;

    printf("in %.1f s", (double)event_number(event, "interval_ms") / 1000);
    json_array_foreach(json_object_get(event, "gpus"), i, row) {
        printf(", GPU %ld", event_number(row, "device"));
        for (size_t k = 0; k < GF_ACTIVITY_STATES; k++) {
            const int64_t ms = event_number(row, gf_text("%s_ms", gf_activity_states[k]));
            if (ms)
                printf(" %s %ld ms", gf_activity_states[k], ms);
        }
    }
    puts("");
    json_array_foreach(json_object_get(event, "copies"), i, row)
        printf("    %s: %ld copies (%s), %ld bytes in %ld us\n", event_text(row, "direction"),
               event_number(row, "calls"), event_text(row, "way"), event_number(row, "bytes"),
               event_number(row, "us"));
}

static void print_slow_step(const json_t *event)
{
    const char *difference = event_text(event, "difference");

    printf("%.1f ms instead of %.1f ms", (double)event_number(event, "us") / 1000,
           (double)event_number(event, "p50_us") / 1000);
    if (*difference)
        printf(", by %s", difference);
    if (json_is_string(json_object_get(event, "cause")))
        printf(", GPU idle for %.1f ms: %s", json_number_value(json_object_get(event, "idle_ms")),
               event_text(event, "cause"));
    if (json_is_string(json_object_get(event, "stall")))
        printf(", stalls of %.1f ms: %s", json_number_value(json_object_get(event, "stall_ms")),
               event_text(event, "stall"));
    printf(", %ld page faults\n",
           event_number(event, "minor_faults") + event_number(event, "major_faults"));
}

static void print_process(const json_t *event)
{
    printf("%s", event_text(event, "program"));
    if (event_number(event, "rank") >= 0)
        printf(", rank %ld", event_number(event, "rank"));
    printf(" on %s", event_text(event, "host"));
    if (*event_text(event, "container"))
        printf(", container %.12s", event_text(event, "container"));
    puts("");
}

static void print_event(const json_t *event)
{
    print_head(json_number_value(json_object_get(event, "time")), event_number(event, "pid"),
               event_text(event, "event"));
    if (strcmp(event_text(event, "event"), "process") == 0)
        print_process(event);
    else if (strcmp(event_text(event, "event"), "threads") == 0)
        print_threads(event);
    else if (strcmp(event_text(event, "event"), "steps") == 0)
        print_steps(event);
    else if (strcmp(event_text(event, "event"), "slow_step") == 0)
        print_slow_step(event);
    else if (strcmp(event_text(event, "event"), "activity") == 0)
        print_activity(event);
    else
        puts(event_text(event, "text"));
    print_dropped(event_number(event, "dropped"));
}

/*
 * Prints all fields of an event, and the date before the first event of a day. If the line is not an
 * event, prints nothing and returns false.
 */
static bool print_event_line(struct gf_span line)
{
    struct gf_event stall;

    if (gf_event_read(line, &stall) && gf_event_is(&stall, "stall")) {
        print_stall(&stall);
        return true;
    }
    json_t *event = json_loadb(line.at, line.size, 0, NULL);
    const bool is_event = json_is_object(event);

    if (is_event)
        print_event(event);
    json_decref(event);
    return is_event;
}

/* Merges several logs by time. Lines of one log stay in their order. */

/* A log with its next line. */
struct input {
    const struct gf_source *source;
    struct gf_line_reader lines;
    struct gf_job_log log; /* its processes */
    struct gf_span text;   /* the line */
    struct gf_event event;
    bool is_event;        /* false for a damaged line */
    bool open;            /* there is a line */
    double time;          /* time of the last line that has a time */
    unsigned events, bad; /* events and damaged lines that were read so far */
    bool refused;         /* an error about the file was printed */
};

struct merge {
    struct input *inputs;
    size_t count;
    struct input **heap; /* the open inputs; no input is before its parent, (i - 1) / 2 */
    size_t heap_count;
};

/*
 * Reads the next line that is not empty. A log may contain empty lines: after a write that was cut
 * short, the library begins the next write with a newline.
 */
static void read_log_line(struct input *input)
{
    do
        input->open = gf_line_reader_next(&input->lines, &input->text);
    while (input->open && input->text.size == 0);
    if (!input->open)
        return;
    input->is_event = gf_event_read(input->text, &input->event) && input->event.event.size;
    if (input->is_event && gf_event_time(&input->event) > 0)
        input->time = gf_event_time(&input->event);
}

static bool is_before(const struct input *a, const struct input *b)
{
    return a->time < b->time || (a->time <= b->time && a < b);
}

/* Moves the input down to its place in the heap. */
static void sift_down(struct merge *merge, size_t at)
{
    struct input **heap = merge->heap, *moved = heap[at];

    for (size_t child; (child = 2 * at + 1) < merge->heap_count; at = child) {
        if (child + 1 < merge->heap_count && is_before(heap[child + 1], heap[child]))
            child++;
        if (is_before(moved, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Raises the limit of open files, because a folder may contain more files. */
static void permit_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/*
 * Opens all sources. Returns false if a log cannot be opened; each such log is named on standard
 * error.
 */
static bool begin_merge(struct merge *merge, const struct gf_sources *sources)
{
    bool whole = true;

    *merge = (struct merge){.inputs = gf_cli_alloc(sources->count, sizeof(*merge->inputs)),
                            .heap = gf_cli_alloc(sources->count, sizeof(void *))};
    permit_files();
    for (size_t i = 0; i < sources->count; i++) {
        struct input *input = &merge->inputs[merge->count];
        const int fd = gf_source_open(&sources->list[i]);
        if (fd < 0) {
            gf_cli_error("cannot read %s: %s", gf_source_name(&sources->list[i]),
                         gf_source_reason(fd));
            whole = false;
            continue;
        }
        merge->count++;
        input->source = &sources->list[i];
        gf_line_reader_begin(&input->lines, fd);
        read_log_line(input);
        if (input->open)
            merge->heap[merge->heap_count++] = input;
    }
    for (size_t i = merge->heap_count / 2; i-- > 0;)
        sift_down(merge, i);
    return whole;
}

/*
 * Called for a file in which only damaged lines and no event were read so far. Returns true if the file
 * is not a log; then also prints an error if an operand names the file.
 */
static bool is_foreign(const struct input *input)
{
    const bool is_report = input->bad == 1 && gf_span_is(input->text, "{");

    if (!is_report && input->bad <= GF_FOREIGN_LINES)
        return false;
    if (input->source->is_named)
        gf_cli_error(is_report ? "%s is a report (GPUFEED_REPORT), which has no events"
                               : "%s is not a log (GPUFEED_LOG)",
                     gf_source_name(input->source));
    return true;
}

static bool takes(struct gf_job *job, struct input *input, const struct gf_job_filter *filter)
{
    if (filter->rank_count) {
        const uint32_t process = gf_job_process_of(job, &input->log, &input->event);
        if (!gf_job_filter_takes_rank(filter, job->processes[process].rank))
            return false;
    }
    return gf_event_time(&input->event) >= filter->since;
}

/* Prints the line's event if it passes the filter. Skips the rest of a file that is not a log. */
static void print_line(struct gf_job *job, struct input *input, const struct gf_job_filter *filter)
{
    if (input->is_event && (!takes(job, input, filter) || print_event_line(input->text))) {
        input->events++;
        return;
    }
    input->bad++;
    input->refused = !input->events && is_foreign(input);
    if (input->refused)
        input->open = false;
    else
        gf_cli_error("%s:%lu is not an event", gf_source_name(input->source), input->lines.number);
}

/*
 * Closes the input. Returns false if it could not be read, or if an operand names a file that is no log;
 * each such file is named on standard error.
 */
static bool end_input(struct input *input)
{
    const char *name = gf_source_name(input->source);
    const bool is_text = input->source->is_named && !input->events && input->bad;

    if (is_text && !input->refused)
        gf_cli_error("%s has no event of a log (GPUFEED_LOG)", name);
    if (input->lines.error)
        gf_cli_error("cannot read %s: %s", name, strerror(input->lines.error));
    gf_job_log_free(&input->log);
    gf_line_reader_end(&input->lines);
    close(input->lines.fd);
    return !is_text && !input->lines.error;
}

bool gf_event_list_print(const struct gf_sources *sources, const struct gf_job_filter *filter)
{
    struct gf_job job = {0};
    struct merge merge;
    bool whole = begin_merge(&merge, sources);

    while (merge.heap_count) {
        struct input *first = merge.heap[0];
        print_line(&job, first, filter);
        if (first->open)
            read_log_line(first);
        if (!first->open)
            merge.heap[0] = merge.heap[--merge.heap_count];
        if (merge.heap_count)
            sift_down(&merge, 0);
    }
    for (size_t i = 0; i < merge.count; i++)
        whole = end_input(&merge.inputs[i]) && whole;
    free(merge.inputs);
    free(merge.heap);
    gf_job_free(&job);
    return whole;
}
