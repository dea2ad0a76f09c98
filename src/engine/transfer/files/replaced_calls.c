/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/files/replaced_calls.h"

#include "base/atomic.h"
#include "engine/transfer/context.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/files/shared_read.h"
#include "engine/transfer/helper.h"
#include "engine/transfer/host_copy.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"
#include "os/permit.h"

#include <limits.h>
#include <pthread.h>

#define LINE ((uintptr_t)64) /* gf_nt_copy writes whole cache lines */

struct host_copy {
    struct gf_pieces job;
    char *to;
    const char *from;
    size_t bytes;
    /*
     * The program handles page faults itself. Then the kernel copies (host_copy.h), and returns
     * an error where an access by a thread would raise a signal. A helper blocks signals, and a
     * signal handler on the calling thread might leave this function by longjmp while helpers work
     * on the job.
     */
    bool guarded;
    int io_priority; /* the caller's, which helpers take while they read a file */
    const char *caller;
};

static __thread char here; /* its address identifies a thread */

static size_t piece_start(uint64_t piece)
{
    return (size_t)piece * GF_TUNE_IMPORT_PIECE;
}

static bool copy_range(const struct host_copy *copy, uint64_t piece)
{
    const size_t start = piece_start(piece);
    const size_t bytes = gf_min(GF_TUNE_IMPORT_PIECE, copy->bytes - start);

    if (copy->guarded)
        return gf_program_copy(copy->to + start, copy->from + start, bytes);
    if (!gf_populate_pages(copy->from + start, bytes, false))
        return false;
    gf_nt_copy(copy->to + start, copy->from + start, bytes);
    return true;
}

static bool copy_piece(struct gf_pieces *job, uint64_t piece)
{
    const struct host_copy *copy = (struct host_copy *)job;

    if (copy->caller == &here)
        return copy_range(copy, piece);
    if (!gf_io_priority_set(copy->io_priority))
        return false;
    const bool ret = copy_range(copy, piece);
    gf_io_priority_restore();
    return ret;
}

#define RANGES 256 /* the most pinned ranges that are known; a further one replaces the oldest */
#define CHANGING ((uintptr_t)1)

/*
 * The program's pinned memory. It is found without a lock and without the driver, because a handler
 * of a signal that interrupts a memcpy may call both. `start` is 0 for a free entry, and CHANGING
 * while the entry is written. Memory that is pinned no longer may be found if its entry is changed
 * at the same time. That is harmless: a copy to any memory has the same bytes and faults.
 */
static struct range {
    _Atomic uintptr_t start, end;
    struct gf_pool *_Atomic pool; /* of the context in which the memory was pinned */
} ranges[RANGES];
static _Atomic unsigned pinned_count; /* number of ranges that were ever added */

static unsigned used_ranges(void)
{
    return gf_min(gf_load_relaxed(&pinned_count), (unsigned)RANGES);
}

static void add_pinned(uintptr_t at, size_t bytes, struct gf_pool *pool)
{
    struct range *range = &ranges[gf_add_relaxed(&pinned_count, 1) % RANGES];

    if (gf_exchange_acq_rel(&range->start, CHANGING) == CHANGING)
        return;
    gf_store_release(&range->end, at + bytes);
    gf_store_release(&range->pool, pool);
    gf_store_release(&range->start, at);
}

/* Returns the pool for copies into a range of pinned memory; NULL: it is not known to be pinned. */
static struct gf_pool *find_pinned(const void *to, size_t bytes)
{
    const uintptr_t at = (uintptr_t)to;

    for (unsigned i = 0; i < used_ranges(); i++) {
        const uintptr_t start = gf_load_acquire(&ranges[i].start);
        const uintptr_t end = gf_load_acquire(&ranges[i].end);
        struct gf_pool *pool = gf_load_acquire(&ranges[i].pool);
        if (start > CHANGING && start <= at && at + bytes <= end &&
            gf_load_relaxed(&ranges[i].start) == start)
            return pool;
    }
    return NULL;
}

void gf_memcpy_pinned(const void *at, size_t bytes, unsigned flags)
{
    gf_memcpy_unpinned(at); /* an entry whose memory was freed without a hook */
    if (bytes < GF_TUNE_IMPORT_LEAST || flags & CU_MEMHOSTALLOC_WRITECOMBINED ||
        gf_setup.options->parallel_memcpy != gf_parallel_memcpy_on)
        return;
    struct gf_context *context = gf_context_enter();
    if (!context)
        return;
    add_pinned((uintptr_t)at, bytes, context->pool);
    gf_context_leave(context);
}

void gf_memcpy_unpinned(const void *at)
{
    for (unsigned i = 0; i < used_ranges(); i++) {
        uintptr_t start = (uintptr_t)at;
        if (gf_load_relaxed(&ranges[i].start) == start)
            gf_cas_relaxed(&ranges[i].start, &start, 0);
    }
}

void gf_memcpy_end(struct gf_context *context)
{
    (void)context;
    for (unsigned i = 0; i < used_ranges(); i++)
        gf_store_relaxed(&ranges[i].start, 0);
}

/*
 * Whether helpers may copy for this thread. A real-time thread would get no helpers. Helpers read
 * absent pages of a file into memory, so they share nothing if the user chose a memory policy. The
 * kernel's copy needs twice the time of memcpy, so two or three threads gain nothing by it.
 */
static bool may_share(const struct gf_pool *pool, const struct host_copy *copy)
{
    return gf_pool_helpers(pool) && gf_pool_threads(pool) > 1 && !gf_is_realtime() &&
           !gf_range_policy_is_users() && gf_io_priority_is_for_all(copy->io_priority) &&
           (copy->guarded
                ? gf_pool_threads(pool) >= GF_TUNE_FEW_THREADS && gf_program_copy_is_possible()
                : gf_populate_is_possible());
}

/*
 * Returns how many bytes were copied from the start. The caller copies the other bytes, so that
 * faults occur on its thread.
 */
static size_t copy_shared(char *to, const char *from, size_t bytes)
{
    struct gf_pool *pool = find_pinned(to, bytes);
    struct host_copy copy = {.job = {.work = copy_piece},
                             .to = to,
                             .from = from,
                             .bytes = bytes,
                             .guarded = gf_faults_are_handled(),
                             .io_priority = gf_io_priority_get(),
                             .caller = &here};
    uint64_t failed = 0;
    int state;

    if (!pool)
        return 0;
    gf_prepare_helpers(pool, gf_when_now);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (may_share(pool, &copy) && gf_import_owner_is_here()) /* a handler may have forked */
        failed =
            gf_pool_run(pool, &copy.job, (bytes + GF_TUNE_IMPORT_PIECE - 1) / GF_TUNE_IMPORT_PIECE);
    pthread_setcancelstate(state, NULL);
    const size_t done = failed == GF_PIECE_NONE ? bytes : piece_start(failed);
    if (done) {
        gf_copy_stats_add(imports[gf_import_memcpy].calls, 1);
        gf_copy_stats_add(imports[gf_import_memcpy].bytes, done);
    }
    return done;
}

static bool are_disjoint(const char *to, const char *from, size_t bytes)
{
    return (uintptr_t)to >= (uintptr_t)from + bytes || (uintptr_t)from >= (uintptr_t)to + bytes;
}

void *gf_parallel_memcpy(void *to, const void *from, size_t bytes)
{
    size_t done = 0;

    if (bytes >= GF_TUNE_IMPORT_LEAST && !gf_permit_sealed() && are_disjoint(to, from, bytes) &&
        gf_import_owner_is_here()) {
        gf_keep_errno();
        const size_t lead = -(uintptr_t)to % LINE;
        memcpy(to, from, lead);
        done = lead + copy_shared((char *)to + lead, (const char *)from + lead, bytes - lead);
    }
    memcpy((char *)to + done, (const char *)from + done, bytes - done);
    return to;
}

/* Memory that the kernel places without a hint ends below this address. */
#if defined(__aarch64__)
#define ADDRESSES_END (UINT64_C(1) << 48)
#else
#define ADDRESSES_END ((UINT64_C(1) << 47) - GF_KIB(4))
#endif

/*
 * Whether a call with this target may be shared. Before it reads, the kernel checks the addresses
 * of the whole target, also of the part that will get no bytes.
 */
static bool may_share_read(const void *to, size_t bytes)
{
    return bytes >= GF_TUNE_IMPORT_LEAST && bytes < ADDRESSES_END &&
           (uintptr_t)to <= ADDRESSES_END - bytes && !gf_permit_sealed() &&
           gf_import_owner_is_here();
}

/*
 * Shares the call. False: nothing was read, and the caller must make the native call. The thread is
 * not cancelled meanwhile, because helpers would remain reserved.
 */
static bool share(int fd, void *to, size_t bytes, off_t offset, ssize_t *ret)
{
    const int error = errno;
    const size_t most = INT_MAX / gf_page_size() * gf_page_size(); /* the kernel's, for one call */
    size_t shared = 0;
    int cancel;

    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    const bool done = gf_shared_read(fd, to, gf_min(bytes, most), offset, ret, &shared);
    pthread_setcancelstate(cancel, NULL);
    if (!done || *ret >= 0)
        errno = error;
    if (shared) {
        gf_copy_stats_add(imports[gf_import_read].calls, 1);
        gf_copy_stats_add(imports[gf_import_read].bytes, shared);
    }
    return done;
}

ssize_t gf_parallel_pread(int fd, void *to, size_t bytes, off_t offset)
{
    ssize_t ret;

    return may_share_read(to, bytes) && offset >= 0 && offset <= INT64_MAX - (int64_t)bytes &&
                   share(fd, to, bytes, offset, &ret)
               ? ret
               : pread(fd, to, bytes, offset);
}

ssize_t gf_parallel_read(int fd, void *to, size_t bytes)
{
    ssize_t ret;

    return may_share_read(to, bytes) && share(fd, to, bytes, GF_AT_OFFSET, &ret)
               ? ret
               : read(fd, to, bytes);
}
