/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/callouts/monitored_call.h"

#include "base/atomic.h"
#include "preload/heap/jemalloc/jemalloc.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Monitors intercept only calls of "mmap". With the declaration in libc's header, the call would go
 * to mmap64.
 */
void *gf_libc_mmap(void *address, size_t size, int protection, int flags, int fd,
                   off_t offset) __asm__("mmap");

void *__real_je_pages_map(void *address, size_t size, size_t alignment, bool *commit);
void *__wrap_je_pages_map(void *address, size_t size, size_t alignment, bool *commit);

static _Atomic bool started;
/*
 * True while this thread creates a mapping for jemalloc. jemalloc may unmap superfluous parts of
 * the new mapping.
 */
static __thread bool maps;
/*
 * Number of monitored calls that this thread is in. It exceeds 1 if a monitor's callback makes
 * another monitored call.
 */
static __thread unsigned monitored;

void *__wrap_je_pages_map(void *address, size_t size, size_t alignment, bool *commit)
{
    maps = true;
    void *const mapped = __real_je_pages_map(address, size, alignment, commit);
    maps = false;
    return mapped;
}

void gf_monitored_call_start(void)
{
    gf_store_relaxed(&started, true);
}

bool gf_monitored_call_now(void)
{
    return monitored > 0;
}

static bool is_unseen(void)
{
    return maps || !gf_load_relaxed(&started);
}

/*
 * begin_monitored and end_monitored do the same as jemalloc's tsd_pre_reentrancy_raw and
 * tsd_post_reentrancy_raw.
 */
static void begin_monitored(void)
{
    monitored++;
    je_tsd_tls.reentrancy_level++;
    je_tsd_slow_update(&je_tsd_tls);
}

static void end_monitored(void)
{
    je_tsd_tls.reentrancy_level--;
    je_tsd_slow_update(&je_tsd_tls);
    monitored--;
}

/*
 * libfabric does not patch the calls of munmap in the object that it takes for the owner of munmap,
 * and this library exports munmap. So the pages are purged first, by a call that it sees.
 */
int gf_monitored_munmap(void *address, size_t size)
{
    if (is_unseen())
        return (int)syscall(SYS_munmap, address, size);
    begin_monitored();
    madvise(address, size, MADV_DONTNEED);
    const int result = munmap(address, size);
    end_monitored();
    return result;
}

int gf_monitored_madvise(void *address, size_t size, int advice)
{
    if (is_unseen())
        return (int)syscall(SYS_madvise, address, size, advice);
    begin_monitored();
    const int result = madvise(address, size, advice);
    end_monitored();
    return result;
}

void *gf_monitored_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (is_unseen())
        return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
    begin_monitored();
    void *const mapped = gf_libc_mmap(address, size, protection, flags, fd, offset);
    end_monitored();
    return mapped;
}

void *gf_monitored_mremap(void *address, size_t before, size_t after, void *to)
{
    begin_monitored();
    void *const moved = mremap(address, before, after, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    end_monitored();
    return moved;
}
