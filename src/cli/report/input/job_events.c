/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/job_events.h"

#include "cli/report/input/job_activity.h"
#include "cli/report/input/job_stack.h"

#include <stdlib.h>
#include <string.h>

#define AFTER_MAX_US 1e13 /* a mark with a longer time is from a damaged file */
#define NOTES_MAX 100000

static uint32_t text_of(struct gf_job *job, struct gf_span value)
{
    char text[1024];

    gf_span_text(value, text, sizeof(text));
    return gf_text_pool_put(&job->texts, text);
}

static bool make_place(struct gf_job_log *log, uint32_t number)
{
    while (number >= log->room) {
        const size_t before = log->room;
        uint32_t *list = gf_job_grown(log->processes, sizeof(*list), log->room, &log->room);
        if (!list)
            return false;
        log->processes = list;
        memset(list + before, 0xff, (log->room - before) * sizeof(*list));
    }
    return true;
}

uint32_t gf_job_process_of(struct gf_job *job, struct gf_job_log *log, const struct gf_event *event)
{
    const int64_t pid = gf_span_int(event->pid);
    const bool begins = gf_event_is(event, "process");
    bool is_new;
    const uint32_t number = gf_text_pool_add(&log->keys, (const char *)&pid, sizeof(pid), &is_new);

    if (!make_place(log, number))
        return UINT32_MAX;
    uint32_t process = log->processes[number];
    if (process != UINT32_MAX && !begins)
        return process;
    if (process != UINT32_MAX)
        job->processes[process].exited = true; /* by execve, or the id is that of a new process */
    process = gf_job_add_process(job);
    if (process == UINT32_MAX)
        return process;
    log->processes[number] = process;
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
    struct gf_stall *list =
        gf_job_grown(job->stalls, sizeof(*list), job->stall_count, &job->stall_room);
    const int64_t us = gf_span_int(event->us);
    const uint32_t thread = gf_job_thread_of(job, process, gf_span_int(event->tid));
    const uint32_t stack = gf_job_stack_of(job, event);

    if (list)
        job->stalls = list;
    if (!list || thread == UINT32_MAX || stack == UINT32_MAX) {
        job->lost++;
        return;
    }
    job->processes[process].stalls++;
    if (!job->threads[thread].name)
        job->threads[thread].name = text_of(job, event->thread);
    list[job->stall_count++] = (struct gf_stall){
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

static void add_mark(struct gf_job *job, const struct gf_step_mark *mark)
{
    struct gf_step_mark *list =
        gf_job_grown(job->marks, sizeof(*list), job->mark_count, &job->mark_room);

    if (!list) {
        job->lost++;
        return;
    }
    job->marks = list;
    list[job->mark_count++] = *mark;
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

    while (thread != UINT32_MAX && first > 0 && first < GF_TIME_MAX &&
           gf_scan_element(&steps, &step) && gf_scan_element(&times, &time))
        add_mark(job,
                 &(struct gf_step_mark){
                     .at = first + gf_min(gf_max(gf_span_number(time), 0.0), AFTER_MAX_US) / 1e6,
                     .step = (uint64_t)gf_max(gf_span_int(step), (int64_t)0),
                     .process = process,
                     .thread = thread,
                 });
    if (job->mark_count > before)
        job->marks[job->mark_count - 1].gap = event->skipped.size || event->last.size;
}

static void add_note(struct gf_job *job, uint32_t process, const struct gf_event *event)
{
    struct gf_note *list =
        gf_job_grown(job->notes, sizeof(*list), job->note_count, &job->note_room);

    if (!list || job->note_count == NOTES_MAX) {
        job->lost++;
        return;
    }
    job->notes = list;
    list[job->note_count++] = (struct gf_note){
        .at = gf_event_time(event),
        .process = process,
        .kind = text_of(job, event->event),
        .text = text_of(job, event->text),
    };
}

void gf_job_add_event(struct gf_job *job, struct gf_job_log *log, const struct gf_event *event)
{
    const uint32_t process = gf_job_process_of(job, log, event);

    if (process == UINT32_MAX) {
        job->lost++;
        return;
    }
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
