/* SPDX-License-Identifier: Apache-2.0 */
#include "host/locality.h"

#include "base/clock.h"
#include "host/tasks.h"
#include "os/memory.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>

/* A mapping, from a line of numa_maps. */
struct mapping {
    uintptr_t start;
    bool anonymous;
    uint64_t page_bytes;
    struct gf_pages pages;
};

static void read_map_word(const char *word, struct mapping *ret)
{
    if (word[0] == 'N' && word[1] >= '0' && word[1] <= '9') {
        char *end;
        const uint64_t node = strtoull(word + 1, &end, 10);
        if (*end != '=')
            return;
        const uint64_t pages = strtoull(end + 1, NULL, 10);
        ret->pages.node[gf_min(node, (uint64_t)GF_LOCALITY_NODES - 1)] += pages;
        ret->pages.total += pages;
    } else if (gf_begins(word, "kernelpagesize_kB=")) {
        ret->page_bytes = strtoull(word + 18, NULL, 10) * 1024;
    } else if (gf_begins(word, "anon=")) {
        ret->anonymous = true;
    } else if (gf_begins(word, "file=/dev/zero") || gf_begins(word, "file=/dev/shm/")) {
        ret->anonymous = true; /* shared anonymous memory, and tensors of DataLoader workers */
    }
}

static void add_pages(struct gf_pages *to, const struct gf_pages *pages, uint64_t page_bytes)
{
    for (unsigned node = 0; node < GF_LOCALITY_NODES; node++)
        to->node[node] += pages->node[node] * page_bytes;
    to->total += pages->total * page_bytes;
}

GF_COMPARATOR(by_start, struct gf_range, gf_order(one->start, other->start))

struct reader {
    const char *file;
    const struct gf_range *ranges; /* ranges of the heap, sorted by their start */
    size_t count;
    size_t next;         /* index of the first range that may cover a later mapping */
    struct mapping last; /* not counted yet, because only the next line shows its end */
    bool have;
    struct gf_locality *ret;
};

/*
 * Whether a mapping belongs to the heap: a range of the heap contains its start, or begins between
 * its start and the next mapping. numa_maps does not show where a mapping ends. `next` is the start
 * of the next mapping.
 */
static bool is_heap(struct reader *reader, uintptr_t start, uintptr_t next)
{
    while (reader->next < reader->count &&
           reader->ranges[reader->next].start + reader->ranges[reader->next].size <= start)
        reader->next++;
    return reader->next < reader->count && reader->ranges[reader->next].start < next;
}

static void finish_last(struct reader *reader, uintptr_t next)
{
    const struct mapping *last = &reader->last;
    if (!reader->have || !last->pages.total)
        return;
    if (is_heap(reader, last->start, next))
        add_pages(&reader->ret->heap, &last->pages, last->page_bytes);
    else if (last->anonymous)
        add_pages(&reader->ret->other, &last->pages, last->page_bytes);
}

/* Adds a line of numa_maps. It is overwritten, because it is split into words. */
static void add_line(struct reader *reader, char *line)
{
    const uintptr_t start = strtoull(line, NULL, 16);
    char *save = NULL;

    finish_last(reader, start);
    reader->last = (struct mapping){.page_bytes = 4096, .start = start};
    reader->have = true;
    for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
        read_map_word(word, &reader->last);
}

static void read_file(void *closure)
{
    struct reader *reader = closure;
    char buf[8192];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};

    if (!gf_procfs_lines_open(&lines, reader->file))
        return;
    /*
     * A line is longer than the buffer only if it contains a file name of thousands of characters.
     * The numbers of pages follow the name, so the pages of such a mapping are not counted.
     */
    for (char *line; (line = gf_procfs_lines_next(&lines));)
        if (!lines.continued)
            add_line(reader, line);
    gf_procfs_lines_close(&lines);
    reader->ret->known = reader->ret->whole = !lines.error && reader->have;
    finish_last(reader, UINTPTR_MAX);
}

void gf_locality_pages(const char *file, struct gf_range *ranges, size_t count,
                       struct gf_locality *ret)
{
    const uint64_t start_ns = gf_now_ns();
    struct reader reader = {.file = file, .ranges = ranges, .count = count, .ret = ret};

    memset(ret, 0, sizeof(*ret));
    if (count)
        qsort(ranges, count, sizeof(*ranges), by_start);
    gf_own_table_run(read_file, &reader);
    ret->usec = (gf_now_ns() - start_ns) / 1000;
}

#define QUERIED 64u /* pages of a call; page faults wait for it */
#define CALLS 64u

/* Finds the addresses at growing offsets in a list of ranges. */
struct cursor {
    const struct gf_range *range;
    uint64_t before; /* bytes of the ranges before it */
};

static void *address_at(struct cursor *cursor, uint64_t offset)
{
    while (offset - cursor->before >= cursor->range->size)
        cursor->before += cursor->range++->size;
    return (void *)(cursor->range->start + (offset - cursor->before));
}

void gf_locality_sample(const struct gf_range *ranges, size_t count, struct gf_locality *ret)
{
    const uint64_t start_ns = gf_now_ns();
    uint64_t size = 0, random = 0;
    struct cursor cursor = {.range = ranges};

    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < count; i++)
        size += ranges[i].size;
    const uint64_t part = size / QUERIED / CALLS; /* of which one page is looked at */
    for (unsigned call = 0; call < CALLS && part; call++) {
        void *pages[QUERIED];
        int node[QUERIED];
        for (unsigned i = 0; i < QUERIED; i++) {
            const uint64_t at = (call * QUERIED + i) * part + gf_random(&random) % part;
            pages[i] = address_at(&cursor, at);
        }
        if (!gf_pages_query(pages, QUERIED, node)) {
            ret->heap = (struct gf_pages){0};
            return;
        }
        for (unsigned i = 0; i < QUERIED; i++)
            if (node[i] >= 0) {
                ret->heap.node[gf_min((unsigned)node[i], GF_LOCALITY_NODES - 1u)] += part;
                ret->heap.total += part;
            }
    }
    ret->known = part;
    ret->usec = (gf_now_ns() - start_ns) / 1000;
}

unsigned gf_pages_share(const struct gf_pages *pages, const struct gf_nodes *nodes)
{
    uint64_t there = 0;
    if (!pages->total)
        return 1000;
    for (unsigned node = 0; node < GF_LOCALITY_NODES; node++)
        if (gf_set_test(nodes, node))
            there += pages->node[node];
    return (unsigned)((there * 1000) / pages->total);
}

struct count {
    const struct gf_cpus *target;
    enum gf_thread_class (*owner)(pid_t tid);
    struct gf_threads *ret;
};

static void count_thread(void *closure, int task, pid_t tid)
{
    const struct count *count = closure;
    struct gf_threads *ret = count->ret;
    struct gf_cpus mask;

    (void)task;
    const enum gf_thread_class owner = count->owner ? count->owner(tid) : gf_thread_program;
    if (gf_tasks_get_mask(tid, &mask))
        return;
    const bool there = gf_set_equal(&mask, count->target);
    switch (owner) {
    case gf_thread_program:
        ret->program++;
        ret->on_target += there;
        ret->elsewhere += !there;
        break;
    case gf_thread_self_set:
        ret->self_set++;
        break;
    case gf_thread_driver:
        ret->driver++;
        ret->driver_on_target += there;
        break;
    case gf_thread_ours:
        ret->library++;
        break;
    }
}

void gf_locality_threads(const struct gf_cpus *target, enum gf_thread_class (*owner)(pid_t tid),
                         struct gf_threads *ret)
{
    struct count count = {target, owner, ret};

    memset(ret, 0, sizeof(*ret));
    gf_tasks_each(0, count_thread, &count);
}
