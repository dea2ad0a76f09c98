/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/stall.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "os/memory.h"
#include "os/own_table.h"
#include "os/pressure.h"
#include "preload/trace/copy_waits.h"
#include "preload/trace/journal.h"
#include "preload/trace/log_file.h"
#include "preload/trace/python.h"
#include "preload/trace/step.h"
#include "preload/trace/step_times.h"
#include "preload/trace/unwind.h"

#include <limits.h>
#include <sys/prctl.h>

/* Formats a stall as a line of the log (docs/log.md). */

/* Bytes that are reserved for the end of the line: the finding and the number of dropped lines. */
#define END_SIZE 512

static void put_parts(struct gf_json *json, const struct gf_slowpath *slow)
{
    static const char *const names[] = {"lock", "purge", "map", "unmap", "setup", "huge"};
    uint64_t rest = slow->end_ns - slow->start_ns;

    gf_json_object(json, "parts_us");
    for (unsigned i = 0; i < GF_SLOWPATH_PARTS; i++) {
        if (slow->part_count[i])
            gf_json_size(json, names[i], slow->part_ns[i] / 1000);
        rest -= gf_min(slow->part_ns[i], rest);
    }
    gf_json_size(json, "rest", rest / 1000);
}

static void put_thread(struct gf_json *json)
{
    char name[17] = "";
    unsigned cpu = 0, node = 0;

    prctl(PR_GET_NAME, name);
    gf_json_text(json, "thread", name);
    if (syscall(SYS_getcpu, &cpu, &node, NULL) == 0) {
        gf_json_int(json, "cpu", cpu);
        gf_json_int(json, "node", node);
    }
}

static void put_place(struct gf_json *json, const struct gf_evidence *evidence)
{
    const struct gf_slowpath *slow = evidence->slow;

    gf_json_known_int(json, "block_node", gf_page_node(slow->block, slow->size));
    if (!gf_json_known(json, "gpu", evidence->gpu.device >= 0))
        return;
    gf_json_object(json, "gpu");
    gf_json_int(json, "device", evidence->gpu.device);
    gf_json_text(json, "pci", evidence->gpu.pci);
}

static void put_usage(struct gf_json *json, const struct gf_slowpath_usage *used)
{
    if (!used->known)
        return;
    gf_json_size(json, "cpu_us", used->cpu_us);
    gf_json_size(json, "minor_faults", used->minor);
    gf_json_size(json, "major_faults", used->major);
    gf_json_size(json, "waits", used->voluntary);
    gf_json_size(json, "preempted", used->forced);
}

static void put_python(struct gf_line *line)
{
    struct gf_json *json = &line->json;
    const struct gf_json before = *json;
    const struct gf_pystack_frame *frame = line->capture.python;
    const size_t frames = gf_python_frames(line->capture.python, GF_PYTHON_FRAMES);

    if (!frames)
        return;
    gf_json_begin(json, "python", '[');
    for (size_t i = 0; i < frames; i++, frame++) {
        gf_json_object(json, NULL);
        gf_json_text(json, "file", frame->file);
        gf_json_int(json, "line", frame->line);
        gf_json_text(json, "function", frame->function);
    }
    gf_json_end(json, ']');
    if (json->at + END_SIZE > json->size)
        *json = before;
}

static void put_module(struct gf_json *json, const struct gf_module *module)
{
    char hex[2 * sizeof(module->id) + 1] = "";

    for (size_t i = 0; i < module->id_length; i++)
        gf_fmt(hex + 2 * i, 3, "%02x", module->id[i]);
    gf_json_object(json, NULL);
    gf_json_text(json, "path", *module->path ? module->path : gf_log_header_program());
    gf_json_text(json, "build_id", hex);
}

static void put_stack(struct gf_line *line)
{
    struct gf_json *json = &line->json;
    const struct gf_json before = *json;
    struct gf_stack *stack = &line->capture.stack;
    char text[32];

    gf_unwind(stack, line->capture.scratch);
    if (!stack->frames)
        return;
    gf_json_begin(json, "stack", '[');
    for (size_t i = 0; i < stack->frames; i++) {
        gf_fmt(text, sizeof(text), "%u+%lx", stack->frame[i].module, stack->frame[i].offset);
        gf_json_text(json, NULL, text);
    }
    gf_json_end(json, ']');
    gf_json_begin(json, "modules", '[');
    for (size_t i = 0; i < stack->modules; i++)
        put_module(json, &stack->module[i]);
    gf_json_end(json, ']');
    if (json->at + END_SIZE > json->size)
        *json = before;
}

/*
 * Called on the thread that stalled, because it records the calling thread's name, CPU and stack.
 * False if there is no log, or if the line was dropped. Keeps errno.
 */
static bool log_stall(const char *call, const struct gf_evidence *evidence,
                      const struct gf_finding *finding)
{
    const struct gf_slowpath *slow = evidence->slow;
    const uint64_t step = gf_step_current();
    struct gf_line *line = gf_journal_begin("stall");

    if (!line)
        return false;
    struct gf_json *json = &line->json;
    line->message.start_ns = slow->start_ns;
    line->message.end_ns = slow->end_ns;
    line->message.found = true;
    line->message.finding = *finding;
    gf_json_text(json, "call", call);
    if (slow->size)
        gf_json_size(json, "size", slow->size);
    gf_json_size(json, "us", (slow->end_ns - slow->start_ns) / 1000);
    gf_json_micro(json, "start", slow->start_ns / 1000);
    put_parts(json, slow);
    put_thread(json);
    put_place(json, evidence);
    put_usage(json, &evidence->used);
    if (step)
        gf_json_size(json, "step", step);
    if (!slow->locked) {
        put_python(line);
        put_stack(line);
    }
    gf_journal_end(line);
    return true;
}

/*
 * Maximum number of waits that a thread times in a window. A typical step has several waits: it
 * copies to the GPU, waits for kernels and copies back.
 */
#define SAMPLES 4
/* Length of a window: 0.3 to 1 ms, depending on the CPU's clock. */
#define SAMPLE_TICKS (UINT64_C(1) << 20)
/*
 * Small copies have a longer window, because timing slows down a thread most if it only makes small
 * copies.
 */
#define SMALL_COPY ((size_t)1 << 20)
#define SMALL_COPY_TICKS (16 * SAMPLE_TICKS)
/* A reading of the thread's usage is reused if it is at most this old. */
#define USAGE_NS UINT64_C(20000)
#define QUERY_SHARE 200 /* queries may take at most 1/QUERY_SHARE of the time */
/*
 * Limits the rate of queries. query_paid_ns is a time on the clock. Each query adds a price to
 * query_paid_ns. No query is made while query_paid_ns is more than QUERY_CREDIT_NS ahead of the
 * clock. The minimum price, QUERY_PRICE_LEAST_NS, accounts for other threads, which may wait for
 * the driver's locks during a query.
 */
#define QUERY_PRICE_LEAST_NS UINT64_C(2500000)
#define QUERY_PRICE_MOST_NS UINT64_C(20000000)
/* Maximum by which query_paid_ns is ahead of the clock. */
#define QUERY_CREDIT_NS UINT64_C(100000000)
#define FIRST_COPIES_NS UINT64_C(20000000) /* no query for this time after the first copy */

static __thread struct gf_pressure_counters pressure_before;
/*
 * Thresholds in ns: for driver calls that are no waits, and for waits. 0: such calls are no stalls.
 */
static _Atomic uint64_t driver_threshold, wait_threshold;
static _Atomic uint64_t query_paid_ns; /* see the comment on QUERY_PRICE_LEAST_NS */
static gf_stall_current_gpu *_Atomic current_gpu;
static struct gf_stall_gpu known_gpus[8];
static const struct gf_stall_gpu *_Atomic process_gpu; /* an element of known_gpus, or NULL */

static enum gf_timed timed_of(enum gf_slowpath_call call)
{
    return gf_timed_malloc + (call - gf_slowpath_malloc);
}

static void gather_evidence(const struct gf_slowpath *slow, struct gf_evidence *ret)
{
    struct gf_slowpath_usage now;
    struct gf_pressure_counters pressure;
    const struct gf_stall_gpu *gpu = gf_load_acquire(&process_gpu);

    *ret = (struct gf_evidence){
        .slow = slow, .gpu.device = -1, .single_threaded = gf_thread_is_only_one()};
    if (gpu)
        ret->gpu = *gpu;
    if (slow->before.known) {
        gf_slowpath_usage(&now);
        ret->used = (struct gf_slowpath_usage){
            .known = now.known,
            .cpu_us = now.cpu_us - slow->before.cpu_us,
            .minor = now.minor - slow->before.minor,
            .major = now.major - slow->before.major,
            .voluntary = now.voluntary - slow->before.voluntary,
            .forced = now.forced - slow->before.forced,
        };
    }
    if (slow->work >= GF_SLOWPATH_MUCH_WORK || slow->part_count[gf_slowpath_huge]) {
        gf_pressure_counters_read(&pressure);
        gf_pressure_counters_rise(&pressure_before, &pressure, &ret->pressure);
    }
    /*
     * gf_pressure_throttled_since reads another file, so it is called only if the thread was mostly
     * off the CPU during the call.
     */
    if (!ret->pressure.known && ret->used.known && !ret->used.voluntary &&
        ret->used.cpu_us * 2000 < slow->end_ns - slow->start_ns)
        ret->throttled_before_us = gf_pressure_throttled_since();
}

static void judge_call(const char *call, struct gf_evidence *evidence)
{
    const struct gf_slowpath *slow = evidence->slow;
    struct gf_finding finding;

    gf_cause_find(evidence, &finding);
    /* If no cause was found, the copy has waited for copies of other streams, which is no stall. */
    if (evidence->driver == gf_driver_copy && finding.cause == gf_cause_unknown)
        return;
    const uint64_t us = (slow->end_ns - slow->start_ns) / 1000;
    gf_stall_count_add(finding.cause, us);
    /* Only the log's writer thread detects pauses. Without a line, the measured part counts. */
    if (!log_stall(call, evidence, &finding) && finding.cause != finding.without_pause)
        gf_stall_count_move(finding.cause, finding.without_pause, us);
    gf_step_times_stall(finding.without_pause, slow->end_ns - slow->start_ns);
}

static void report_heap(const struct gf_slowpath *slow)
{
    static const char *const calls[GF_SLOWPATH_CALLS] = {"heap",    "malloc",   "calloc",
                                                         "realloc", "memalign", "free"};
    struct gf_evidence evidence;

    gather_evidence(slow, &evidence);
    if (slow->call != gf_slowpath_other)
        gf_latency_add_max(timed_of(slow->call), slow->size, slow->end_ns - slow->start_ns);
    judge_call(calls[slow->call], &evidence);
}

static void before_work(void)
{
    gf_pressure_counters_read(&pressure_before);
}

static void add_sampled(enum gf_slowpath_call call, size_t size, uint64_t ns)
{
    gf_latency_add(timed_of(call), size, ns);
}

void gf_stall_watch(uint64_t threshold)
{
    static const struct gf_slowpath_watcher watcher = {
        .report = report_heap, .before_work = before_work, .sampled = add_sampled};

    if (!threshold || gf_slowpath_threshold())
        return;
    gf_latency_open();
    gf_pressure_counters_open();
    gf_unwind_open();
    gf_python_open();
    gf_slowpath_watch(threshold, &watcher);
}

/* Writes each element of known_gpus only once, because other threads may be reading it. */
void gf_stall_set_gpu(const struct gf_stall_gpu *gpu)
{
    static _Atomic unsigned used;
    const unsigned row = gpu ? gf_add_relaxed(&used, 1) : UINT_MAX;

    if (row < GF_ARRAY_LEN(known_gpus))
        known_gpus[row] = *gpu;
    gf_store_release(&process_gpu, row < GF_ARRAY_LEN(known_gpus) ? &known_gpus[row] : NULL);
}

void gf_stall_watch_driver(uint64_t threshold, uint64_t for_waits, gf_stall_current_gpu *current)
{
    gf_stall_count_share();
    gf_store_release(&current_gpu, current);
    gf_store_relaxed(&wait_threshold, for_waits);
    gf_latency_open();
    gf_pressure_counters_open();
    gf_unwind_open();
    gf_python_open(); /* an interpreter may have been loaded by now */
    gf_store_release(&driver_threshold, threshold);
}

static bool is_wait(enum gf_timed kind)
{
    return kind == gf_timed_driver_wait || kind == gf_timed_driver_copy;
}

/*
 * Whether this wait is timed. Two clock readings take a thirtieth of the time of a small copy, so
 * only SAMPLES waits per window are timed. With one wait per window, only the first wait of each
 * step would be timed, and never the wait for the step's kernels.
 */
static bool is_sampled(bool small_copy)
{
    static __thread struct window {
        uint64_t since;
        unsigned samples;
    } windows[2];
    struct window *window = &windows[small_copy];
    const uint64_t now = gf_ticks();

    if (now - window->since >= (small_copy ? SMALL_COPY_TICKS : SAMPLE_TICKS)) {
        window->since = now;
        window->samples = 0;
    }
    if (window->samples == SAMPLES)
        return false;
    window->samples++;
    return true;
}

/*
 * Reads the thread's usage at the start of a call. Reuses a reading that is at most USAGE_NS old,
 * because USAGE_NS is short compared with a stall. A new reading makes two system calls. These
 * calls would take as long as serving a small pinned block from the cache.
 */
static void read_recent_usage(struct gf_slowpath_usage *ret, uint64_t now)
{
    static __thread struct {
        uint64_t since;
        struct gf_slowpath_usage usage;
    } last;

    if (now - last.since >= USAGE_NS || gf_slowpath_forked(last.since, now)) {
        gf_slowpath_usage(&last.usage);
        last.since = now;
    }
    *ret = last.usage;
}

void gf_stall_begin(struct gf_stall_mark *mark, enum gf_timed kind, size_t size)
{
    mark->start_ns = 0;
    mark->idle = false;
    mark->before.known = false;
    /* Acquire: pairs with the release in gf_stall_watch_driver. */
    if (gf_likely(!gf_load_acquire(&driver_threshold)))
        return;
    if (kind == gf_timed_driver_pin && size >= GF_SLOWPATH_MUCH_WORK)
        gf_pressure_counters_read(&pressure_before);
    if (is_wait(kind) && gf_likely(!is_sampled(kind == gf_timed_driver_copy && size < SMALL_COPY)))
        return;
    mark->start_ns = gf_now_ns();
    if (!is_wait(kind))
        read_recent_usage(&mark->before, mark->start_ns);
}

/* The first copies of a process are slow because the driver initialises itself. */
static bool is_first_copy(uint64_t now)
{
    static _Atomic uint64_t until;
    uint64_t end = gf_load_relaxed(&until);

    if (gf_unlikely(!end)) {
        end = now + FIRST_COPIES_NS;
        gf_store_relaxed(&until, end);
    }
    return now < end;
}

bool gf_stall_should_query(const struct gf_stall_mark *mark, enum gf_timed kind)
{
    const uint64_t now = mark->start_ns, paid = gf_load_relaxed(&query_paid_ns);

    if (!now || !gf_load_relaxed(&wait_threshold) || paid > now + QUERY_CREDIT_NS ||
        (kind == gf_timed_driver_copy && is_first_copy(now)))
        return false;
    gf_store_relaxed(&query_paid_ns, gf_max(paid, now) + QUERY_PRICE_LEAST_NS);
    return true;
}

void gf_stall_query_done(struct gf_stall_mark *mark, bool idle)
{
    if (idle)
        gf_slowpath_usage(&mark->before);
    const uint64_t now = gf_now_ns();
    const uint64_t price = gf_min((now - mark->start_ns) * QUERY_SHARE, QUERY_PRICE_MOST_NS);

    if (price > QUERY_PRICE_LEAST_NS)
        gf_add_relaxed(&query_paid_ns, price - QUERY_PRICE_LEAST_NS);
    mark->idle = idle;
    if (idle)
        mark->start_ns = now;
}

static GF_COLD void report_driver(const struct gf_stall_mark *mark, uint64_t now,
                                  enum gf_timed kind, const char *name, size_t size,
                                  const void *block)
{
    gf_keep_errno();
    const struct gf_slowpath slow = {.call = gf_slowpath_other,
                                     .size = size,
                                     .block = block,
                                     .work = kind == gf_timed_driver_pin ? size : 0,
                                     .start_ns = mark->start_ns,
                                     .end_ns = now,
                                     .before = mark->before,
                                     .forked = gf_slowpath_forked(mark->start_ns, now)};
    struct gf_evidence evidence;
    struct gf_stall_gpu gpu;

    gather_evidence(&slow, &evidence);
    evidence.driver = kind == gf_timed_driver_wait   ? gf_driver_wait
                      : kind == gf_timed_driver_copy ? gf_driver_copy
                                                     : gf_driver_call;
    gf_stall_current_gpu *current = gf_load_acquire(&current_gpu);
    if (current && current(&gpu))
        evidence.gpu = gpu;
    judge_call(name, &evidence);
}

void gf_stall_end(const struct gf_stall_mark *mark, enum gf_timed kind, const char *name,
                  size_t size, const void *block)
{
    if (gf_likely(!mark->start_ns))
        return;
    const uint64_t now = gf_now_ns(), took = now - mark->start_ns;

    gf_latency_add(kind, size, took);
    if (kind == gf_timed_driver_wait) {
        gf_step_times_wait(now, name);
        gf_copy_waits_waited(took);
    }
    const bool slow = is_wait(kind) ? mark->idle && took >= gf_load_relaxed(&wait_threshold)
                                    : took >= gf_load_relaxed(&driver_threshold);
    if (gf_unlikely(slow))
        report_driver(mark, now, kind, name, size, block);
}
