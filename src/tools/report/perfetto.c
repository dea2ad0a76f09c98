/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf_view.h"
#include "base/path.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/report/outputs.h"

#include <stdlib.h>

/*
 * PyTorch's trace may be gigabytes of JSON. Only the top-level members are parsed; the list of events
 * is copied as bytes.
 */
static struct {
    struct gf_span text;   /* the whole file, mapped; of size 0 if none is open */
    struct gf_span events; /* the value of traceEvents, with its brackets */
    int64_t base_ns;       /* CLOCK_REALTIME at timestamp 0 of the trace; 0 if not given */
} torch;

static bool read_torch_trace(void)
{
    struct gf_scan scan = gf_scan_begin(torch.text, '{');
    struct gf_span key, value;

    while (gf_scan_member(&scan, &key, &value)) {
        if (gf_span_is(key, "traceEvents") && *value.at == '[')
            torch.events = value;
        else if (gf_span_is(key, "baseTimeNanoseconds"))
            torch.base_ns = gf_span_int(value);
    }
    return gf_scan_ended(&scan) && torch.events.size;
}

int gf_torch_trace_open(const char *path)
{
    struct gf_elf_view file;
    const int error = gf_elf_view_open(path, &file);
    if (error)
        return error;
    torch.text = (struct gf_span){(const char *)file.bytes, file.size};
    const bool compressed = file.size > 2 && memcmp(file.bytes, "\x1f\x8b", 2) == 0;
    const bool is_large = file.size > GF_BYTES_MOST;
    /* A sparse file reads as zero bytes. */
    if (!compressed && !is_large && !memchr(file.bytes, '\0', file.size) && read_torch_trace())
        return 0;
    const bool is_list = *file.bytes == '[';
    gf_torch_trace_close();
    return compressed ? -EPROTONOSUPPORT : is_large ? -EFBIG : is_list ? -ENOTSUP : -EINVAL;
}

void gf_torch_trace_close(void)
{
    if (torch.text.size)
        munmap((void *)(uintptr_t)torch.text.at, torch.text.size);
    memset(&torch, 0, sizeof(torch));
}

/*
 * A multiple of this is added to the pids of all hosts but the first, because pids must be unique
 * in a trace.
 */
#define OTHER_HOST 100000000
/*
 * The thread id of the row of steps, which exceeds any real thread id. A step may overlap stalls,
 * but slices of one row must nest, so steps have a row of their own.
 */
#define STEP_ROW 2000000000

struct trace {
    FILE *out;
    const struct gf_job *job;
    const struct gf_steps *steps;
    int64_t base_ns;
    int64_t *pids; /* by process */
    bool more;
};

/*
 * Converts seconds to nanoseconds. A time that 64 bits cannot express in nanoseconds is from a
 * damaged file, and is clamped.
 */
static int64_t ns_of(double time)
{
    const double most = 9e9;
    time = time > 0 ? gf_min(time, most) : 0;
    const int64_t whole = (int64_t)time;
    return whole * 1000000000 + (int64_t)((time - (double)whole) * 1e9);
}

/*
 * Prints the time in microseconds since the base, with three decimals. A double that counts seconds
 * since 1970 has a resolution of about 0.25 us.
 */
static void print_time(const struct trace *trace, double time)
{
    int64_t ns;

    if (__builtin_sub_overflow(ns_of(time), trace->base_ns, &ns) || ns == INT64_MIN)
        ns = 0;
    fprintf(trace->out, ",\"ts\":%s%ld.%03d", ns < 0 ? "-" : "", (ns < 0 ? -ns : ns) / 1000,
            (int)((ns < 0 ? -ns : ns) % 1000));
}

static void begin_event(struct trace *trace, const char *phase, int64_t pid, int64_t tid)
{
    fprintf(trace->out, "%s\n{\"ph\":\"%s\",\"pid\":%ld,\"tid\":%ld", trace->more ? "," : "", phase,
            pid, tid);
    trace->more = true;
}

/* Texts of a job contain no control characters. */
static void print_escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

/* Prints a member whose value is a text, after `before`, which ends the previous member. */
static void print_text(struct trace *trace, const char *before, const char *key, const char *text)
{
    fprintf(trace->out, "%s\"%s\":\"", before, key);
    print_escaped(trace->out, text);
    fputc('"', trace->out);
}

static void print_name(struct trace *trace, const char *kind, int64_t pid, int64_t tid,
                       const char *name)
{
    begin_event(trace, "M", pid, tid);
    fprintf(trace->out, ",\"name\":\"%s\",\"args\":", kind);
    print_text(trace, "{", "name", name);
    fputs("}}", trace->out);
}

/*
 * Writes a process's name. The name begins with the rank and contains no folder, because viewers
 * show only its beginning.
 */
static void print_process(struct trace *trace, uint32_t number)
{
    const struct gf_job_process *process = &trace->job->processes[number];
    const char *program = gf_path_file_name(gf_job_text(trace->job, process->program));
    const char *host = gf_job_text(trace->job, process->host);
    const char *rank = process->rank >= 0 ? gf_job_process_name(process) : "";

    print_name(trace, "process_name", trace->pids[number], 0,
               gf_text("%s%s%.200s%s%.600s", rank, *rank && *host ? " on " : "", host,
                       *rank || *host ? ": " : "", program));
}

static void print_frames(struct trace *trace, const struct gf_job_stack *stack)
{
    fputs(",\"stack\":\"", trace->out);
    for (uint32_t i = stack->count; i-- > 0;) {
        print_escaped(trace->out, gf_job_text(trace->job, trace->job->frames[stack->frame + i]));
        fputs(i ? "\\n" : "", trace->out);
    }
    fputc('"', trace->out);
}

static void print_stall(struct trace *trace, const struct gf_stall *stall)
{
    const struct gf_job *job = trace->job;

    begin_event(trace, "X", trace->pids[stall->process], job->threads[stall->thread].tid);
    print_text(trace, ",", "name", gf_job_text(job, stall->call));
    print_text(trace, ",", "cat", gf_job_text(job, stall->cause));
    print_time(trace, stall->at);
    fprintf(trace->out, ",\"dur\":%u,\"args\":", stall->us);
    print_text(trace, "{", "cause", gf_job_text(job, stall->cause));
    print_text(trace, ",", "site", gf_job_text(job, job->stacks[stall->stack].site));
    print_frames(trace, &job->stacks[stall->stack]);
    if (stall->size >= 0)
        fprintf(trace->out, ",\"bytes\":%ld", stall->size);
    if (stall->step != GF_NO_STEP)
        fprintf(trace->out, ",\"step\":%ld", stall->step);
    fputs("}}", trace->out);
}

/*
 * A step in progress gets only a begin event ("B"). A step with an unknown end has a duration of 0.
 * Other steps end 1 ns before the next step begins, because viewers drop slices of a row that
 * overlap, and may round times to another nanosecond.
 */
static void print_step(struct trace *trace, const struct gf_step *step)
{
    begin_event(trace, step->is_open ? "B" : "X", trace->pids[step->process],
                STEP_ROW + step->process);
    fprintf(trace->out, ",\"name\":\"step %lu\",\"cat\":\"gpufeed_step\"", step->step);
    print_time(trace, step->at);
    const int64_t ns = gf_max(ns_of(step->at + step->s) - ns_of(step->at) - 1, (int64_t)0);
    if (!step->is_open)
        fprintf(trace->out, ",\"dur\":%ld.%03d", ns / 1000, (int)(ns % 1000));
    fprintf(trace->out, ",\"args\":{\"thread\":%ld}}", trace->job->threads[step->thread].tid);
}

static void print_steps(struct trace *trace)
{
    const struct gf_steps *steps = trace->steps;
    GF_OWNED bool *named = gf_cli_alloc(trace->job->process_count, sizeof(*named));

    for (size_t i = 0; i < steps->count; i++) {
        const uint32_t process = steps->list[i].process;
        if (!named[process])
            print_name(trace, "thread_name", trace->pids[process], STEP_ROW + process, "steps");
        named[process] = true;
        print_step(trace, &steps->list[i]);
    }
}

/*
 * Writes the counters at `time`, which is the beginning or the end of the interval: the GPU's time
 * by state, and the rates of copies. At the end, all counters are 0. `all` is the sum of the times
 * of all states; 0 without a GPU.
 */
static void print_counters(struct trace *trace, const struct gf_activity *activity, double time,
                           double all)
{
    const double length = activity->to - activity->from;
    const bool ends = time >= activity->to; /* viewers draw the last value to the trace's end */

    if (all > 0) {
        begin_event(trace, "C", trace->pids[activity->process], 0);
        fputs(",\"name\":\"GPU time, %\"", trace->out);
        print_time(trace, time);
        for (int i = 0; i < GF_ACTIVITY_STATES; i++)
            fprintf(trace->out, "%s\"%s\":%.1f", i ? "," : ",\"args\":{", gf_activity_states[i],
                    ends ? 0 : 100 * activity->state_s[i] / all);
        fputs("}}", trace->out);
    }
    begin_event(trace, "C", trace->pids[activity->process], 0);
    fputs(",\"name\":\"copies, MB/s\"", trace->out);
    print_time(trace, time);
    fprintf(trace->out, ",\"args\":{\"to GPU\":%.1f,\"from GPU\":%.1f}}",
            ends ? 0 : activity->bytes[0] / length / 1e6,
            ends ? 0 : activity->bytes[1] / length / 1e6);
}

/* The last interval of a process, and the time of its GPUs in all intervals. */
struct ending {
    const struct gf_activity *last;
    double gpu_s;
};

static void print_activities(struct trace *trace)
{
    const struct gf_job *job = trace->job;
    GF_OWNED struct ending *endings = gf_cli_alloc(job->process_count, sizeof(*endings));

    for (size_t i = 0; i < job->activity_count; i++) {
        const struct gf_activity *activity = &job->activity[i];
        struct ending *ending = &endings[activity->process];
        double all = 0;
        for (int k = 0; k < GF_ACTIVITY_STATES; k++)
            all += activity->state_s[k];
        print_counters(trace, activity, activity->from, all);
        if (!ending->last || activity->to >= ending->last->to)
            ending->last = activity;
        ending->gpu_s += all;
    }
    for (size_t i = 0; i < job->process_count; i++)
        if (endings[i].last)
            print_counters(trace, endings[i].last, endings[i].last->to, endings[i].gpu_s);
}

static void print_note(struct trace *trace, const struct gf_note *note)
{
    begin_event(trace, "i", trace->pids[note->process], trace->job->processes[note->process].pid);
    fputs(",\"s\":\"p\",\"cat\":\"gpufeed\"", trace->out);
    print_text(trace, ",", "name", gf_job_text(trace->job, note->kind));
    print_time(trace, note->at);
    fputs(",\"args\":", trace->out);
    print_text(trace, "{", "text", gf_job_text(trace->job, note->text));
    fputs("}}", trace->out);
}

/*
 * Chooses the pids in the trace. The pids of the first host stay as they are, because PyTorch's
 * trace contains the same pids.
 */
static void number_processes(struct trace *trace)
{
    const struct gf_job *job = trace->job;
    uint32_t first = 0;

    trace->pids = gf_cli_alloc(job->process_count, sizeof(*trace->pids));
    for (size_t i = 0; i < job->process_count; i++) {
        const uint32_t host = job->processes[i].host;
        if (!first)
            first = host;
        trace->pids[i] = job->processes[i].pid;
        if (host && host != first && trace->pids[i] < OTHER_HOST && trace->pids[i] >= 0)
            trace->pids[i] += (int64_t)host * OTHER_HOST;
    }
}

static void print_events(struct trace *trace)
{
    const struct gf_job *job = trace->job;

    for (size_t i = 0; i < job->process_count; i++)
        if (!job->processes[i].excluded)
            print_process(trace, (uint32_t)i);
    for (size_t i = 0; i < job->thread_count; i++)
        if (!job->processes[job->threads[i].process].excluded)
            print_name(trace, "thread_name", trace->pids[job->threads[i].process],
                       job->threads[i].tid, gf_job_text(job, job->threads[i].name));
    for (size_t i = 0; i < job->stall_count; i++)
        print_stall(trace, &job->stalls[i]);
    print_steps(trace);
    print_activities(trace);
    for (size_t i = 0; i < job->note_count; i++)
        print_note(trace, &job->notes[i]);
}

static bool is_blank(struct gf_span list)
{
    struct gf_scan scan = gf_scan_begin(list, '[');
    struct gf_span value;
    return !gf_scan_element(&scan, &value);
}

/*
 * Writes the contents of PyTorch's file, and inserts the job's events at the front of its list of
 * events.
 */
static void print_merged(struct trace *trace)
{
    const char *inside = torch.events.at + 1;
    const size_t before = (size_t)(inside - torch.text.at);

    fwrite(torch.text.at, 1, before, trace->out);
    print_events(trace);
    if (trace->more && !is_blank(torch.events))
        fputc(',', trace->out);
    fwrite(inside, 1, torch.text.size - before, trace->out);
}

void gf_perfetto_write(FILE *out, const struct gf_answer *answer)
{
    struct trace trace = {
        .out = out,
        .job = answer->job,
        .steps = &answer->steps,
        .base_ns = torch.text.size ? torch.base_ns : ns_of(answer->from) / 1000000000 * 1000000000};

    number_processes(&trace);
    if (torch.text.size) {
        print_merged(&trace);
    } else {
        fprintf(out, "{\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":%ld,\"traceEvents\":[",
                trace.base_ns);
        print_events(&trace);
        fputs("\n]}\n", out);
    }
    free(trace.pids);
}
