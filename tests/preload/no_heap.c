/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stubs for preload libraries that the tests build without the heap and the log. Such a library
 * does not replace malloc.
 */
#include "preload/heap/arenas.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/fork.h"
#include "preload/heap/heap.h"
#include "preload/heap/jemalloc_sys.h"
#include "preload/heap/mappings.h"
#include "preload/heap/reclaim.h"
#include "preload/malloc/libc_names.h"
#include "preload/malloc/start.h"
#include "preload/trace/copy_waits.h"
#include "preload/trace/unwind.h"
#include "preload/trace/journal.h"
#include "preload/trace/run_root.h"
#include "preload/trace/python.h"
#include "preload/trace/stall.h"
#include "preload/trace/cause.h"
#include "preload/trace/step.h"
#include "preload/trace/step_times.h"

enum gf_heap_mode gf_mode_now = gf_heap_mode_passthrough;

void gf_start(void)
{
}

void gf_start_watch(const struct gf_options *options)
{
    (void)options;
}

void gf_start_probes(unsigned wanted)
{
    (void)wanted;
}

void gf_fork_registration_begin(void)
{
}

void gf_fork_registration_end(void)
{
}

int gf_fork_keep_early(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                       void *object)
{
    (void)prepare, (void)parent, (void)child, (void)object;
    return 0;
}

const struct gf_heap_ops *gf_heap_ops(void)
{
    static const struct gf_heap_ops none = {
        .mode = gf_heap_mode_passthrough,
        .mode_reason = "built without a heap",
    };
    return &none;
}

void gf_huge_allow(void)
{
}

bool gf_monitored_call_now(void)
{
    return false;
}

__thread bool gf_strict;

bool gf_reclaim_for_call(void)
{
    return false;
}

void gf_reclaim_limit(int resource, uint64_t soft)
{
    (void)resource;
    (void)soft;
}

void gf_arenas_share_main(void)
{
}

void gf_arenas_thread_started(void)
{
}

bool gf_libc_names_prepare(void)
{
    return true;
}

bool gf_libc_names_contain(const char *name)
{
    (void)name;
    return false;
}

/* These builds have no log either. */
bool gf_journal_wanted(void)
{
    return false;
}

void gf_journal_event(const char *event, const char *fields)
{
    (void)event;
    (void)fields;
}

void gf_journal_count(struct gf_journal_count *ret)
{
    *ret = (struct gf_journal_count){0};
}

void gf_journal_share(void)
{
}

void gf_journal_serve(void)
{
}

void gf_journal_before_exit(void (*last)(void))
{
    (void)last;
}

void gf_journal_put_exit(void)
{
}

void gf_journal_finish(void)
{
}

void gf_journal_drain(void)
{
}

bool gf_stall_should_query(const struct gf_stall_mark *mark, enum gf_timed kind)
{
    (void)mark, (void)kind;
    return false;
}

void gf_stall_query_done(struct gf_stall_mark *mark, bool idle)
{
    (void)mark;
    (void)idle;
}

void gf_stall_watch_driver(uint64_t threshold_ns, uint64_t wait_threshold_ns,
                           gf_stall_current_gpu *current_gpu)
{
    (void)threshold_ns;
    (void)wait_threshold_ns;
    (void)current_gpu;
}

void gf_stall_set_gpu(const struct gf_stall_gpu *gpu)
{
    (void)gpu;
}

void gf_stall_begin(struct gf_stall_mark *mark, enum gf_timed kind, size_t size)
{
    (void)size;
    (void)kind;
    mark->start_ns = 0;
}

void gf_stall_end(const struct gf_stall_mark *mark, enum gf_timed kind, const char *name,
                  size_t size, const void *block)
{
    (void)mark;
    (void)block;
    (void)kind;
    (void)name;
    (void)size;
}

void gf_messages_start(void)
{
}

void gf_run_root_started_program(void)
{
}

void gf_run_root_initialised(int result)
{
    (void)result;
}

void gf_run_root_ask(bool (*has_context)(void))
{
    (void)has_context;
}

void gf_step_mark(uint64_t number)
{
    (void)number;
}

void gf_step_log_flush(void)
{
}

void gf_step_count(struct gf_step_count *ret)
{
    *ret = (struct gf_step_count){0};
}

void gf_step_times_copy(uint64_t now, size_t bytes)
{
    (void)now;
    (void)bytes;
}

void gf_step_times_graph(uint64_t ns, uint64_t graph)
{
    (void)ns;
    (void)graph;
}

void gf_step_times_publish(uint64_t now, const uint64_t facts[GF_STEP_ENGINE_FACTS])
{
    (void)now;
    (void)facts;
}

void gf_step_times_read(struct gf_step_times *ret)
{
    *ret = (struct gf_step_times){0};
}

void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT])
{
    (void)ret;
}

void gf_latency_each(gf_latency_fn *fn, void *closure)
{
    (void)fn;
    (void)closure;
}

uintptr_t gf_python_thread_state(void)
{
    return 0;
}

bool gf_python_describe(struct gf_python *ret)
{
    (void)ret;
    return false;
}

size_t gf_python_frames(struct gf_pystack_frame *ret, size_t cap)
{
    (void)ret;
    (void)cap;
    return 0;
}

bool gf_unwind_is_in(const void *address, const char *name, uintptr_t *ret_start, size_t *ret_size)
{
    (void)address, (void)name, (void)ret_start, (void)ret_size;
    return false;
}

void gf_copy_waits_start(uint64_t threshold_ns)
{
    (void)threshold_ns;
}

bool gf_copy_waits_wanted(void)
{
    return false;
}

void gf_copy_waits_add(bool to_device, uint64_t bytes, uint64_t ns)
{
    (void)to_device, (void)bytes, (void)ns;
}

void gf_copy_waits_queued(uintptr_t stream, uint64_t bytes, uint64_t submitted)
{
    (void)stream, (void)bytes, (void)submitted;
}

void gf_copy_waits_expect(uintptr_t stream, uint64_t submitted)
{
    (void)stream, (void)submitted;
}

void gf_copy_waits_forget(void)
{
}

void gf_copy_waits_read(struct gf_copy_waits *ret)
{
    *ret = (struct gf_copy_waits){0};
}
