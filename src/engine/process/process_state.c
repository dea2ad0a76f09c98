/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/process_state.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/report/sections.h"
#include "engine/report/summary.h"
#include "host/tasks.h"
#include "host/verdict.h"

#include <stdlib.h>

#define RANGES_MAX 65536

struct gf_process gf_process;

uint64_t gf_process_elapsed_ms(void)
{
    return (gf_now_ns() - gf_process.started_ns) / 1000000;
}

bool gf_process_under_sanitizer(void)
{
    return gf_tasks_find_map(0, "libsanitizer-", NULL) == 0;
}

size_t gf_process_heap_ranges(struct gf_range **ret)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;
    /*
     * The heap may get more ranges between the two calls. Ranges that do not fit into the array are
     * omitted.
     */
    const size_t cap = heap->ranges ? gf_min(heap->ranges(NULL, 0), (size_t)RANGES_MAX) + 16 : 1;

    *ret = calloc(cap, sizeof(**ret));
    return *ret && heap->ranges ? gf_min(heap->ranges(*ret, cap), cap) : 0;
}

static _Atomic bool held;

bool gf_report_lock(unsigned wait_ms)
{
    while (gf_exchange_acquire(&held, true)) {
        if (wait_ms-- == 0)
            return false;
        gf_sleep_ns(1000000);
    }
    if (!gf_process_dead())
        return true;
    gf_report_unlock();
    return false;
}

void gf_report_unlock(void)
{
    gf_store_release(&held, false);
}

/*
 * The events for the report. A process has only a few. Each call takes a row of its own, so no lock
 * is needed.
 */
static struct {
    struct gf_report_event event;
    _Atomic bool ready;
} rows[GF_REPORT_EVENTS];
static _Atomic unsigned row_count;

static void log_fields(struct gf_json *json, const char *event)
{
    gf_json_end(json, '}');
    if (gf_json_close(json))
        gf_process.preload->log(event, json->buf);
}

void gf_events_record(enum gf_report_event_kind kind, const char *text)
{
    char fields[512];
    struct gf_json json = {.buf = fields, .size = sizeof(fields)};

    if (gf_process.preload->log_wanted()) {
        gf_json_begin(&json, NULL, '{');
        gf_json_text(&json, "text", text);
        log_fields(&json, gf_report_event_name(kind));
    }
    if (kind == gf_report_ring)
        return; /* there may be many of these events, so the report does not list them */
    const unsigned row = gf_add_relaxed(&row_count, 1);
    if (row < GF_REPORT_EVENTS) {
        struct gf_report_event *event = &rows[row].event;
        *event = (struct gf_report_event){.kind = kind, .at_ms = gf_process_elapsed_ms()};
        gf_fmt(event->text, sizeof(event->text), "%s", text);
        gf_store_release(&rows[row].ready, true);
    }
}

void gf_events_announce(enum gf_report_event_kind kind, const char *format, ...)
{
    char text[sizeof(((struct gf_report_event *)0)->text)];
    va_list args;

    va_start(args, format);
    gf_vfmt(text, sizeof(text), format, args);
    va_end(args);
    gf_info("%s", text);
    gf_events_record(kind, text);
}

void gf_events_announce_decision(const struct gf_decision *decision)
{
    const struct gf_verdict *verdict = &decision->verdict;
    char text[768], fields[4096], cpus[512];
    struct gf_json json = {.buf = fields, .size = sizeof(fields)};

    gf_summary_verdict(decision, gf_process.preload->options,
                       &(struct gf_textbuf){text, sizeof(text), 0});
    gf_log(verdict->warn ? GF_LOG_WARN : GF_LOG_INFO, "%s", text);
    if (!gf_process.preload->log_wanted())
        return;
    gf_json_begin(&json, NULL, '{');
    gf_json_text(&json, "text", text);
    gf_json_text(&json, "choice", decision->choice);
    gf_json_text(&json, "bound", gf_bound_name(verdict->bound));
    gf_json_bool(&json, "in_force", decision->bound);
    gf_json_text(&json, "cpus", gf_set_format(&decision->cpus, cpus, sizeof(cpus)));
    gf_json_text(&json, "reason", verdict->reason);
    log_fields(&json, "decided");
}

void gf_events_collect(struct gf_report *report)
{
    report->event_count = 0;
    for (size_t row = 0; row < GF_REPORT_EVENTS; row++)
        if (gf_load_acquire(&rows[row].ready))
            report->events[report->event_count++] = rows[row].event;
}
