/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of many kinds: allocated, filled, checked and freed. */
#include "diff.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define GUARD ((size_t)16)
#define VAST ((size_t)32 << 20)
#define FRESH_SHOWN ((size_t)2 << 20) /* smaller pinned blocks may hold bytes of earlier blocks */

static const char *const names[kind_count] = {
    "none",        "heap",           "fresh",      "private",         "shared",  "memfd", "file",
    "file-shared", "file-read-only", "read-only",  "holes",           "dropped", "huge",  "static",
    "pinned",      "pinned-v2",      "registered", "half-registered", "managed"};

const char *kind_name(enum kind kind)
{
    return names[kind];
}

bool host_pageable(const struct host *h)
{
    return h->kind < kind_pageable;
}

static size_t up(size_t size)
{
    return (size + PAGE - 1) & ~(PAGE - 1);
}

static void map(struct thread *t, struct host *h, size_t size, int protection, int flags, int fd)
{
    h->map_size = up(size);
    h->map = mmap(NULL, h->map_size, protection, flags, fd, 0);
    if (h->map == MAP_FAILED)
        crash(t, "mmap of %zu failed", size);
    h->at = (unsigned char *)h->map + up(size) - size; /* the range ends where its mapping ends */
}

/* A file of random bytes that has been unlinked. */
static int file_of(struct thread *t, size_t size)
{
    char name[] = "/tmp/gpufeed-diff-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) || ftruncate(fd, (off_t)up(size)))
        crash(t, "no file in /tmp");
    struct host scratch;
    map(t, &scratch, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    fill(t, scratch.map, up(size));
    munmap(scratch.map, scratch.map_size);
    return fd;
}

static void map_file(struct thread *t, struct host *h, size_t size)
{
    int fd = h->kind == kind_memfd ? memfd_create("diff", MFD_CLOEXEC) : file_of(t, size);
    if (fd < 0 || (h->kind == kind_memfd && ftruncate(fd, (off_t)up(size))))
        crash(t, "no memory file");
    h->writable = h->kind != kind_file_read_only;
    map(t, h, size, h->writable ? PROT_READ | PROT_WRITE : PROT_READ,
        h->kind == kind_file || h->kind == kind_file_read_only ? MAP_PRIVATE : MAP_SHARED, fd);
    close(fd);
}

/* Maps one more page at each end, and unmaps these two pages again. */
static void map_between_holes(struct thread *t, struct host *h, size_t size)
{
    map(t, h, up(size) + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    munmap(h->map, PAGE);
    munmap((char *)h->map + PAGE + up(size), PAGE);
    h->map = (char *)h->map + PAGE;
    h->map_size = up(size);
    h->at = (unsigned char *)h->map + (chance(t, 50) ? 0 : up(size) - size);
}

static void make_static(struct host *h, size_t size)
{
    static _Thread_local unsigned char block[1 << 20];
    h->at = block;
    h->size = size < sizeof block ? size : sizeof block;
}

static void make_pageable(struct thread *t, struct host *h, size_t size)
{
    const int both = PROT_READ | PROT_WRITE;
    switch (h->kind) {
    case kind_heap:
    case kind_fresh:
        h->map = h->kind == kind_heap ? malloc(size) : calloc(1, size);
        h->at = h->map;
        break;
    case kind_memfd:
    case kind_file:
    case kind_file_shared:
    case kind_file_read_only:
        map_file(t, h, size);
        break;
    case kind_holes:
        map_between_holes(t, h, size);
        break;
    case kind_static:
        make_static(h, size);
        break;
    case kind_shared:
        map(t, h, size, both, MAP_SHARED | MAP_ANONYMOUS, -1);
        break;
    default:
        map(t, h, size, both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (h->kind == kind_huge)
            madvise(h->map, h->map_size, MADV_HUGEPAGE);
    }
    if (!h->at)
        crash(t, "no memory");
}

static CUresult make_pinned(struct thread *t, struct host *h, size_t size)
{
    static const unsigned flags[] = {0, 1, 2, 3, 4, 0, 0};
    void *at = NULL;
    CUresult result;
    if (h->kind == kind_pinned)
        result = CALL(t, cuMemHostAlloc, &at, size, flags[any(t, 7)]);
    else
        result = CALL(t, cuMemAllocHost_v2, &at, size);
    h->at = at;
    return result;
}

static CUresult make_registered(struct thread *t, struct host *h, size_t size)
{
    size_t from = 0, room = size;
    if (chance(t, 30)) {
        h->map = h->at = malloc(size);
    } else {
        map(t, h, size, PROT_READ | PROT_WRITE,
            (chance(t, 50) ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1);
    }
    if (h->kind == kind_half_registered) {
        from = any_offset(t, size / 2);
        room = 1 + any(t, size - from);
    }
    h->pinned_at = h->at + from;
    return CALL(t, cuMemHostRegister_v2, h->pinned_at, room, (unsigned)any(t, 4));
}

static CUresult make_managed(struct thread *t, struct host *h, size_t size)
{
    CUdeviceptr at = 0;
    CUresult result = CALL(t, cuMemAllocManaged, &at, size, CU_MEM_ATTACH_GLOBAL);
    h->at = (unsigned char *)(uintptr_t)at;
    return result;
}

void host_make(struct thread *t, struct host *h, enum kind kind, size_t size)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t fresh = 0;
    *h = (struct host){.kind = kind, .size = size, .writable = true, .world = t->now};
    if (kind == kind_pinned || kind == kind_pinned_v2)
        result = make_pinned(t, h, size);
    else if (kind == kind_registered || kind == kind_half_registered)
        result = make_registered(t, h, size);
    else if (kind == kind_managed)
        result = make_managed(t, h, size);
    else
        make_pageable(t, h, size);
    bool zeroed = kind == kind_pinned || kind == kind_pinned_v2;
    if (!result && zeroed && size >= FRESH_SHOWN)
        fresh = hash(h->at, size);
    say(t, "make %s %zu -> %d fresh %016lx", names[kind], size, (int)result, (unsigned long)fresh);
    if (result) {
        h->kind = kind_none;
        return;
    }
    if (h->writable && kind != kind_fresh && kind != kind_file)
        fill(t, h->at, h->size);
    if (kind == kind_dropped)
        madvise((char *)h->map + any_offset(t, h->map_size - PAGE) / PAGE * PAGE, PAGE,
                MADV_DONTNEED);
    if (kind == kind_read_only) {
        mprotect(h->map, h->map_size, PROT_READ);
        h->writable = false;
    }
}

static CUresult unpin(struct thread *t, struct host *h)
{
    if (h->kind == kind_pinned || h->kind == kind_pinned_v2)
        return CALL(t, cuMemFreeHost, h->at);
    if (h->kind == kind_managed)
        return CALL(t, cuMemFree_v2, (uintptr_t)h->at);
    return h->pinned_at ? CALL(t, cuMemHostUnregister, h->pinned_at) : CUDA_SUCCESS;
}

static void unmap(struct host *h)
{
    if (h->map_size)
        munmap(h->map, h->map_size);
    else
        free(h->map);
    h->kind = kind_none;
}

/*
 * Freeing pinned memory waits for its users. So the program frees it in half of the cases without
 * waiting first.
 */
void host_drop(struct thread *t, struct host *h)
{
    if (h->kind == kind_half_registered || h->kind == kind_managed || chance(t, 50) ||
        h->world != t->now || host_pageable(h))
        host_settle(t, h);
    CUresult result = unpin(t, h);
    say(t, "drop %s %zu -> %d", names[h->kind], h->size, (int)result);
    if (!result)
        unmap(h);
}

void host_forget(struct thread *t, struct world *world)
{
    for (struct host *h = t->host; h < t->host + HOSTS; h++) {
        h->busy &= ~(0xffu << (8 * world->number));
        if (h->kind != kind_none && h->world == world && !host_pageable(h))
            unmap(h);
    }
}

void host_churn(struct thread *t)
{
    struct host *h = &t->host[any(t, HOSTS)];
    if (h->kind != kind_none)
        host_drop(t, h);
    if (h->kind != kind_none)
        return;
    enum kind kind = chance(t, 60) ? 1 + any(t, kind_pageable - 1)
                                   : kind_pageable + any(t, kind_count - kind_pageable);
    size_t size = any_room(t, options.largest + options.largest / 4);
    if (kind == kind_pinned && chance(t, 30)) /* large enough that the library serves it */
        size = VAST + any_size(t, VAST / 4);
    host_make(t, h, kind, size);
}

struct host *any_host(struct thread *t, bool writable)
{
    for (int tries = 0; tries < 100; tries++) {
        struct host *h = &t->host[any(t, HOSTS)];
        if (h->kind != kind_none && (h->writable || !writable))
            return h;
    }
    crash(t, "no memory left");
}

void host_settle(struct thread *t, struct host *h)
{
    settle(t, h->busy);
    h->busy = 0;
}

uint64_t host_hash(const struct host *h, const unsigned char *at, size_t size)
{
    size_t before = (size_t)(at - h->at), behind = h->size - before - size;
    before = before < GUARD ? before : GUARD;
    behind = behind < GUARD ? behind : GUARD;
    return hash(at - before, before + size + behind);
}
