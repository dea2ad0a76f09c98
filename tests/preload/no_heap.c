/* SPDX-License-Identifier: Apache-2.0 */
/* For doors built by the tests without src/heap and src/observe: malloc stays the program's. */
#include "heap/heap.h"
#include "observe/journal.h"
#include "observe/stall.h"

void gf_heap_init(void)
{
}

void gf_heap_registers(void)
{
}

void gf_heap_registered(void)
{
}

bool gf_heap_loaded(void)
{
    return true;
}

const struct gf_heap_ops *gf_heap_ops(void)
{
    static const struct gf_heap_ops none = {
        .mode = gf_heap_mode_next,
        .mode_reason = "built without a heap",
    };
    return &none;
}

void gf_heap_thread_aside(void)
{
}

void gf_heap_thread_born(void)
{
}

bool gf_heap_before_dlopen(void)
{
    return true;
}

/* Nor have they a log. */
void gf_journal_open(const char *pattern, char *const *envp, const char *version)
{
    (void)pattern;
    (void)envp;
    (void)version;
}

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

void gf_journal_leave(void)
{
}

void gf_journal_finish(void)
{
}

void gf_journal_drain(void)
{
}

void gf_stall_watch(uint64_t threshold_ns)
{
    (void)threshold_ns;
}

bool gf_stall_asks(const struct gf_stall_mark *mark, enum gf_timed kind)
{
    (void)mark, (void)kind;
    return false;
}

void gf_stall_asked(struct gf_stall_mark *mark, bool idle)
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

void gf_stall_gpu_known(const struct gf_stall_gpu *gpu)
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

void gf_stall_step(uint64_t step)
{
    (void)step;
}

void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT])
{
    (void)ret;
}

void gf_latency_each(gf_latency_see *see, void *closure)
{
    (void)see;
    (void)closure;
}
