/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the log's event `activity` to a job: a GPU's states and copies over time. */
#include "tools/job/job_input.h"

#include "base/path.h"
#include "tools/common/text.h"

#include <stdlib.h>

#define INTERVALS_MAX 500000
#define COPIES_MAX 1000000
#define MONTH_MS 2.7e9

const char *const gf_activity_states[GF_ACTIVITY_STATES] = {"empty", "copying", "communicating",
                                                            "queued", "unknown"};

static bool is_to_device(struct gf_span direction)
{
    return gf_span_is(direction, "\"to_device\"");
}

static double bounded(struct gf_span value, double most)
{
    const double number = gf_span_number(value);
    return number > 0 && number < most ? number : 0;
}

/* Adds the times of a GPU's states, which are members such as "empty_ms". */
static void add_states(struct gf_activity *activity, struct gf_span gpu)
{
    struct gf_scan scan = gf_scan_begin(gpu, '{');
    struct gf_span key, value;

    while (gf_scan_member(&scan, &key, &value))
        for (unsigned i = 0; i < GF_ACTIVITY_STATES; i++)
            if (gf_span_is(key, gf_text("%s_ms", gf_activity_states[i])))
                activity->state_s[i] += bounded(value, MONTH_MS) / 1000;
}

/* Reads the next sum of copies, or single copy, which the log writes in the same form. */
static bool next_row(struct gf_scan *scan, struct gf_event *ret)
{
    struct gf_span element;

    while (gf_scan_element(scan, &element))
        if (gf_event_read(element, ret) && ret->direction.size && ret->bytes.size)
            return true;
    return false;
}

static void add_copy(struct gf_job *job, uint32_t process, const struct gf_event *row, double shift)
{
    const uint32_t thread = gf_job_thread_of(job, process, gf_span_int(row->tid));
    const double at = gf_span_number(row->start) + shift;
    char way[32];

    if (job->copy_count == COPIES_MAX) {
        job->lost++;
        return;
    }
    if (at <= 0 || at > GF_TIME_MAX)
        return;
    gf_span_text(row->way, way, sizeof(way));
    *GF_JOB_ADD(job->copies, job->copy_count) = (struct gf_long_copy){
        .at = at,
        .bytes = (uint64_t)bounded(row->bytes, 1e18),
        .us = (uint32_t)bounded(row->us, UINT32_MAX),
        .process = process,
        .thread = thread,
        .way = gf_text_pool_put(&job->texts, way),
        .to_device = is_to_device(row->direction),
    };
}

/* Impossible values count as 0. An event without a time is ignored. */
static void gf_job_activity_add(struct gf_job *job, uint32_t process, const struct gf_event *event)
{
    const double to = gf_event_time(event), mono = gf_span_number(event->mono);
    const double length = bounded(event->interval_ms, MONTH_MS) / 1000;
    struct gf_scan gpus = gf_scan_begin(event->gpus, '['), sums = gf_scan_begin(event->copies, '['),
                   longest = gf_scan_begin(event->longest, '[');
    struct gf_event row;
    struct gf_span gpu;

    if (job->activity_count == INTERVALS_MAX) {
        job->lost++;
        return;
    }
    if (to <= length || length <= 0)
        return;
    struct gf_activity *activity = GF_JOB_ADD(job->activity, job->activity_count);
    *activity = (struct gf_activity){.from = to - length, .to = to, .process = process};
    while (gf_scan_element(&gpus, &gpu))
        add_states(activity, gpu);
    while (next_row(&sums, &row))
        activity->bytes[is_to_device(row.direction) ? 0 : 1] += bounded(row.bytes, 1e18);
    while (next_row(&longest, &row))
        add_copy(job, process, &row, to - mono);
}

/* A stack that is being read; the innermost frame is the first one. */
struct frames {
    uint32_t list[GF_FRAMES_MAX];
    uint32_t count;
    /* Indexes in `list` of the two innermost frames of the program's own code. */
    uint32_t own[2], own_count;
};

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
    if (frames->count == GF_FRAMES_MAX)
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
    snprintf(text, sizeof(text), "%s:%ld in %s", gf_path_file_name(python.file), python.line,
             python.function);
    add_frame(job, frames, text, *python.file != '<' && !gf_path_is_python_library(python.file));
}

static void read_frames(struct gf_job *job, struct frames *frames, const struct gf_event *event)
{
    const bool is_python = event->python.size > 2;
    struct gf_scan scan = gf_scan_begin(is_python ? event->python : event->stack, '[');
    struct gf_span frame;
    char text[1600], path[1024];

    if (!is_python)
        gf_frame_modules(event->modules);
    while (frames->count < GF_FRAMES_MAX && gf_scan_element(&scan, &frame)) {
        if (is_python)
            read_python_frame(job, frames, frame);
        else if (gf_frame_name_of(frame, false, text, sizeof(text), path))
            add_frame(job, frames, text, !is_runtime(path));
    }
}

/*
 * Adds a stack to the job in reverse order, because in a job the innermost frame is the last one.
 */
static uint32_t append(struct gf_job *job, const struct frames *frames)
{
    const size_t first = job->frame_count;

    for (uint32_t i = frames->count; i-- > 0;)
        *GF_JOB_ADD(job->frames, job->frame_count) = frames->list[i];
    *GF_JOB_ADD(job->stacks, job->stack_count) = (struct gf_job_stack){
        .site = frames->count ? frames->list[frames->own_count ? frames->own[0] : 0] : 0,
        .caller = frames->own_count > 1 ? frames->list[frames->own[1]] : 0,
        .frame = (uint32_t)first,
        .count = frames->count,
    };
    return (uint32_t)job->stack_count - 1;
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

/*
 * Returns the index of a stall's stack: its Python frames or, without them, its native frames.
 * Equal stacks have the same index, so each stack's function names are looked up once.
 */
static uint32_t gf_job_stack_of(struct gf_job *job, const struct gf_event *event)
{
    static char buf[64 << 10];
    const struct gf_span text = stack_text(event, buf, sizeof(buf));
    struct frames frames = {.count = 0};
    bool is_new;

    /* The pool's first two strings are "" and the key of empty stacks. */
    if (!job->stack_count) {
        gf_text_pool_add(&job->stack_keys, "-", 1, &is_new);
        append(job, &frames);
    }
    if (!text.size)
        return 0;
    const uint32_t number = gf_text_pool_add(&job->stack_keys, text.at, text.size, &is_new);
    if (!is_new)
        return number - 1;
    read_frames(job, &frames, event);
    return append(job, &frames);
}

#define AFTER_MAX_US 1e13 /* a mark with a longer time is from a damaged file */
#define NOTES_MAX 100000

static uint32_t text_of(struct gf_job *job, struct gf_span value)
{
    char text[1024];

    gf_span_text(value, text, sizeof(text));
    return gf_text_pool_put(&job->texts, text);
}

uint32_t gf_job_process_of(struct gf_job *job, struct gf_job_log *log, const struct gf_event *event)
{
    const int64_t pid = gf_span_int(event->pid);
    const bool begins = gf_event_is(event, "process");
    bool is_new;
    const uint32_t number = gf_text_pool_add(&log->keys, (const char *)&pid, sizeof(pid), &is_new);

    uint32_t *const known = GF_POOL_SLOT(log->processes, number, log->room);
    if (*known && !begins)
        return *known - 1;
    if (*known)
        job->processes[*known - 1].exited = true; /* by execve, or the id is a new process's */
    const uint32_t process = gf_job_add_process(job);
    *known = process + 1;
    struct gf_job_process *at = &job->processes[process];
    at->pid = pid;
    at->logged = true;
    if (begins) {
        at->ppid = gf_span_int(event->ppid);
        at->rank = gf_span_is_number(event->rank) ? gf_span_int(event->rank) : -1;
        at->host = text_of(job, event->host);
        at->program = text_of(job, event->program);
    }
    return process;
}

static double start_time(const struct gf_event *event)
{
    const double time = gf_event_time(event), mono = gf_span_number(event->mono);
    const double before = mono - gf_span_number(event->start);
    const double us = gf_span_number(event->us);

    if (event->start.size && event->mono.size && before >= 0 && before < time)
        return time - before;
    return us >= 0 && us / 1e6 < time ? time - us / 1e6 : time;
}

static void add_stall(struct gf_job *job, uint32_t process, const struct gf_event *event)
{
    const int64_t us = gf_span_int(event->us);
    const uint32_t thread = gf_job_thread_of(job, process, gf_span_int(event->tid));
    const uint32_t stack = gf_job_stack_of(job, event);

    job->processes[process].stalls++;
    if (!job->threads[thread].name)
        job->threads[thread].name = text_of(job, event->thread);
    *GF_JOB_ADD(job->stalls, job->stall_count) = (struct gf_stall){
        .at = start_time(event),
        .step = gf_span_is_number(event->step) ? gf_span_int(event->step) : GF_NO_STEP,
        .size = gf_span_is_number(event->size) ? gf_span_int(event->size) : -1,
        .us = us < 0 ? 0 : (uint32_t)gf_min(us, (int64_t)UINT32_MAX),
        .process = process,
        .thread = thread,
        .stack = stack,
        .cause = text_of(job, event->cause),
        .call = text_of(job, event->call),
    };
}

static uint64_t amount(struct gf_span value)
{
    const int64_t number = gf_span_int(value);
    return number > 0 && number < (int64_t)1 << 40 ? (uint64_t)number : 0;
}

static void add_delays(struct gf_job_process *process, const struct gf_event *event)
{
    struct gf_scan scan = gf_scan_begin(event->threads, '[');
    struct gf_span thread;
    struct gf_event fields;

    while (gf_scan_element(&scan, &thread)) {
        if (!gf_event_read(thread, &fields))
            continue;
        process->delay_ms += amount(fields.delay_ms);
        process->throttled_ms += amount(fields.throttled_ms);
        process->fault_ms += amount(fields.fault_ms);
    }
}

/*
 * Adds the step marks of a line, and converts their times from the clock of `mono` to the clock of
 * `time`.
 */
static void add_marks(struct gf_job *job, uint32_t process, const struct gf_event *event)
{
    const double first =
        gf_event_time(event) - (gf_span_number(event->mono) - gf_span_number(event->start));
    const uint32_t thread = gf_job_thread_of(job, process, gf_span_int(event->tid));
    struct gf_scan steps = gf_scan_begin(event->steps, '['),
                   times = gf_scan_begin(event->after_us, '[');
    const size_t before = job->mark_count;
    struct gf_span step, time;

    while (first > 0 && first < GF_TIME_MAX && gf_scan_element(&steps, &step) &&
           gf_scan_element(&times, &time))
        *GF_JOB_ADD(job->marks, job->mark_count) = (struct gf_step_mark){
            .at = first + gf_min(gf_max(gf_span_number(time), 0.0), AFTER_MAX_US) / 1e6,
            .step = (uint64_t)gf_max(gf_span_int(step), (int64_t)0),
            .process = process,
            .thread = thread,
        };
    if (job->mark_count > before)
        job->marks[job->mark_count - 1].gap = event->skipped.size || event->last.size;
}

static void add_note(struct gf_job *job, uint32_t process, const struct gf_event *event)
{
    if (job->note_count == NOTES_MAX) {
        job->lost++;
        return;
    }
    *GF_JOB_ADD(job->notes, job->note_count) = (struct gf_note){
        .at = gf_event_time(event),
        .process = process,
        .kind = text_of(job, event->event),
        .text = text_of(job, event->text),
    };
}

void gf_job_add_event(struct gf_job *job, struct gf_job_log *log, const struct gf_event *event)
{
    const uint32_t process = gf_job_process_of(job, log, event);
    struct gf_job_process *at = &job->processes[process];
    const double time = gf_event_time(event);
    if (time > 0 && (at->first <= 0 || time < at->first))
        at->first = time;
    at->last = gf_max(at->last, time);
    at->dropped += amount(event->dropped);
    at->uses_gpu |= gf_event_is(event, "decided") || gf_event_is(event, "activity");
    at->exited |= gf_event_is(event, "exit") || gf_event_is(event, "full");
    if (gf_event_is(event, "stall"))
        add_stall(job, process, event);
    else if (gf_event_is(event, "threads"))
        add_delays(at, event);
    else if (gf_event_is(event, "steps"))
        add_marks(job, process, event);
    else if (gf_event_is(event, "activity"))
        gf_job_activity_add(job, process, event);
    else if (event->text.size)
        add_note(job, process, event);
}

void gf_job_log_free(struct gf_job_log *log)
{
    gf_text_pool_free(&log->keys);
    free(log->processes);
    *log = (struct gf_job_log){0};
}
