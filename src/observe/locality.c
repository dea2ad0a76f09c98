/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/locality.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A mapping as a line of numa_maps tells it. */
struct mapping {
    uintptr_t start;
    bool anonymous;
    uint64_t page_bytes;
    struct gf_pages pages;
};

static const char *number(const char *p, unsigned base, uint64_t *ret)
{
    uint64_t value = 0;
    for (;; p++) {
        const unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                               : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a') + 10
                                                        : 99;
        if (digit >= base)
            break;
        value = value * base + digit;
    }
    *ret = value;
    return p;
}

static void read_word(const char *word, struct mapping *ret)
{
    uint64_t node, pages;

    if (word[0] == 'N' && word[1] >= '0' && word[1] <= '9') {
        const char *p = number(word + 1, 10, &node);
        if (*p != '=')
            return;
        number(p + 1, 10, &pages);
        ret->pages.node[gf_min(node, (uint64_t)GF_LOCALITY_NODES - 1)] += pages;
        ret->pages.total += pages;
    } else if (strncmp(word, "kernelpagesize_kB=", 18) == 0) {
        number(word + 18, 10, &pages);
        ret->page_bytes = pages * 1024;
    } else if (strncmp(word, "anon=", 5) == 0) {
        ret->anonymous = true;
    } else if (strncmp(word, "file=/dev/zero", 14) == 0 || strncmp(word, "file=/dev/shm/", 14) == 0) {
        ret->anonymous = true; /* shared anonymous memory and what DataLoader workers hand over */
    }
}

/* Cuts line into words. */
static void read_line(char *line, struct mapping *ret)
{
    uint64_t start;
    char *save = NULL;

    *ret = (struct mapping){.page_bytes = 4096};
    number(line, 16, &start);
    ret->start = (uintptr_t)start;
    for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
        read_word(word, ret);
}

static void add(struct gf_pages *to, const struct gf_pages *pages, uint64_t page_bytes)
{
    for (unsigned node = 0; node < GF_LOCALITY_NODES; node++)
        to->node[node] += pages->node[node] * page_bytes;
    to->total += pages->total * page_bytes;
}

static int by_start(const void *a, const void *b)
{
    const struct gf_range *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

struct reader {
    const struct gf_range *ranges; /* by start */
    size_t count;
    size_t next; /* the first range that may still matter */
    struct mapping last; /* its end is known only when the next line has come */
    bool have;
    struct gf_locality *ret;
};

/*
 * numa_maps gives no ends. A mapping is the heap's when a range of the heap covers its start or
 * begins before the next mapping: what is mapped there belongs to the nearest start below it.
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
        add(&reader->ret->heap, &last->pages, last->page_bytes);
    else if (last->anonymous)
        add(&reader->ret->other, &last->pages, last->page_bytes);
}

static void take_line(struct reader *reader, char *line)
{
    struct mapping mapping;
    read_line(line, &mapping);
    finish_last(reader, mapping.start);
    reader->last = mapping;
    reader->have = true;
}

/* Feeds whole lines; a line longer than the buffer (a file name) is cut, its head says enough. */
static int each_line(int fd, struct reader *reader)
{
    char buf[8192];
    size_t held = 0;
    bool skip = false;

    for (;;) {
        const ssize_t got = read(fd, buf + held, sizeof(buf) - 1 - held);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        held += (size_t)got;
        buf[held] = '\0';
        char *line = buf;
        for (char *end; (end = memchr(line, '\n', held - (size_t)(line - buf))); line = end + 1) {
            *end = '\0';
            if (!skip)
                take_line(reader, line);
            skip = false;
        }
        held -= (size_t)(line - buf);
        memmove(buf, line, held);
        if (held == sizeof(buf) - 1) {
            buf[held] = '\0';
            if (!skip)
                take_line(reader, buf);
            skip = true;
            held = 0;
        }
    }
}

void gf_locality_pages(const char *file, struct gf_range *ranges, size_t count,
                       struct gf_locality *ret)
{
    const uint64_t begun = gf_now_ns();
    struct reader reader = {.ranges = ranges, .count = count, .ret = ret};

    memset(ret, 0, sizeof(*ret));
    if (count)
        qsort(ranges, count, sizeof(*ranges), by_start);
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ret->known = each_line(fd, &reader) == 0 && reader.have;
    finish_last(&reader, UINTPTR_MAX);
    close(fd);
    ret->usec = (gf_now_ns() - begun) / 1000;
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

static void count_thread(const struct gf_cpus *target, pid_t tid, enum gf_mask_owner owner,
                         struct gf_threads *ret)
{
    struct gf_cpus mask = {0};
    /* The raw call: the library's own name is hooked, and libc's wrapper checks no more. */
    if (syscall(SYS_sched_getaffinity, tid, sizeof(mask), &mask) < 0)
        return;
    const bool there = gf_set_equal(&mask, target);
    switch (owner) {
    case gf_mask_program:
        ret->program++;
        ret->on_target += there;
        ret->elsewhere += !there;
        break;
    case gf_mask_self_set:
        ret->self_set++;
        break;
    case gf_mask_driver:
        ret->driver++;
        ret->driver_on_target += there;
        break;
    case gf_mask_ours:
        ret->ours++;
        break;
    }
}

struct entry { /* struct linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

void gf_locality_threads(const struct gf_cpus *target, enum gf_mask_owner (*owner)(pid_t tid),
                         struct gf_threads *ret)
{
    char buf[4096] __attribute__((aligned(8)));
    memset(ret, 0, sizeof(*ret));
    const int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (long got; (got = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0;) {
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(const void *)(buf + at);
            at += entry->length;
            uint64_t tid;
            if (*number(entry->name, 10, &tid) == '\0' && tid)
                count_thread(target, (pid_t)tid, owner ? owner((pid_t)tid) : gf_mask_program, ret);
        }
    }
    close(fd);
}
