/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of jemalloc 5.3.0 that are answered otherwise here, because what they cost serves nobody in
 * this process. Linked with --wrap (jemalloc.syms); each leaves jemalloc in a state that it can be in
 * anyway. What they save: docs/heap.md.
 */
#include "heap/extents.h"
#include "heap/jemalloc.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

uint64_t __wrap_je_peak_alloc_new_event_wait(void *tsd);
uint64_t __wrap_je_peak_dalloc_new_event_wait(void *tsd);
void __real_je_ehooks_default_zero_impl(void *start, size_t size);
void __wrap_je_ehooks_default_zero_impl(void *start, size_t size);
void *__real_je_eset_fit(void *set, size_t size, size_t alignment, bool exact, unsigned lg_fit);
void *__wrap_je_eset_fit(void *set, size_t size, size_t alignment, bool exact, unsigned lg_fit);

/*
 * Every 64 KiB a thread would look whether it has never held so much before. Only "thread.peak" of
 * mallctl tells, which is not exported; without it the next event is due when the cache is looked over.
 */
uint64_t __wrap_je_peak_alloc_new_event_wait(void *tsd)
{
    (void)tsd;
    return UINT64_MAX;
}

uint64_t __wrap_je_peak_dalloc_new_event_wait(void *tsd)
{
    (void)tsd;
    return UINT64_MAX;
}

/*
 * Used pages that must be zero are given back to the kernel, to be faulted in again one by one, which takes
 * several times as long as writing zeros, where the pages are there. A large block of which little was touched,
 * or that the kernel has taken meanwhile, would be brought in whole for who may use little of it again. Up to the
 * size that glibc may keep and clear (its M_MMAP_THRESHOLD at most), and the page that jemalloc adds.
 */
#define CLEAR_UNSEEN (1 * MIB + GF_JEMALLOC_PAGE)
#define CLEAR_MOST (32 * MIB + GF_JEMALLOC_PAGE)

/* All but an eighth. In some steps: a thread's stack may be small. Keeps errno. */
static bool is_there(const char *start, size_t size)
{
    const int error = errno;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = size / page;
    unsigned char there[512];
    size_t missing = 0;
    bool ret = true;

    for (size_t at = 0; ret && at < count; at += sizeof(there)) {
        const size_t some = gf_min(count - at, sizeof(there));
        ret = syscall(SYS_mincore, start + at * page, some * page, there) == 0;
        for (size_t i = 0; ret && i < some; i++)
            missing += !(there[i] & 1);
        ret = ret && missing <= count / 8;
    }
    errno = error;
    return ret;
}

void __wrap_je_ehooks_default_zero_impl(void *start, size_t size)
{
    if (size <= CLEAR_UNSEEN || (size <= CLEAR_MOST && is_there(start, size)))
        memset(start, 0, size);
    else
        __real_je_ehooks_default_zero_impl(start, size);
}

/*
 * A free extent of an arena for a block; the arena's lock is held. So that batches find their place
 * again, jemalloc splits no dirty extent of more than 64 times the size. But small slabs that are freed
 * together become one large extent, which is then good for nothing small, and where dirty pages are
 * kept, as here, each thread that comes and goes takes new ones. So it is split after all where the arena has
 * more than the process's large blocks can want again, twice over, and this much.
 */
#define FIT_LG 6 /* jemalloc's default; a user's setting is left alone */
#define ANY_LG 63
#define SPARED (8 * MIB)

void *__wrap_je_eset_fit(void *set, size_t size, size_t alignment, bool exact, unsigned lg_fit)
{
    void *found = __real_je_eset_fit(set, size, alignment, exact, lg_fit);

    if (!found && !exact && lg_fit == FIT_LG &&
        je_eset_npages_get(set) * GF_JEMALLOC_PAGE > 2 * gf_extents_missing() + SPARED)
        found = __real_je_eset_fit(set, size, alignment, exact, ANY_LG);
    return found;
}
