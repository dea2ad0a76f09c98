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
#include "engine/transfer/tuning.h"
#include "os/own_table.h"
#include "os/permit.h"

#include <limits.h>
#include <pthread.h>

#define LINE ((uintptr_t)64) /* gf_nt_copy writes whole cache lines */

static _Atomic uint64_t calls, copied;

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
        return gf_program_write(copy->to + start, copy->from + start, bytes);
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

static bool is_pinned(const void *at)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
    CUmemorytype type = 0;
    unsigned managed = 0;
    void *into[] = {&type, &managed};

    return gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, (uintptr_t)at) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST && !managed;
}

/*
 * The kernel writes through its own mapping, which is uncached for write-combined memory. It also
 * needs twice the time of memcpy, so two or three threads gain nothing.
 */
static bool may_guard(const struct gf_context *context, char *to)
{
    unsigned flags = 0;

    return gf_pool_threads(context->pool) >= GF_TUNE_FEW_THREADS && gf_program_copy_is_possible() &&
           gf_setup.cuda->cuMemHostGetFlags &&
           gf_setup.cuda->cuMemHostGetFlags(&flags, to) == CUDA_SUCCESS &&
           !(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
}

/*
 * Whether helpers may copy for this thread. A real-time thread would get no helpers. Helpers read
 * absent pages of a file into memory, so they share nothing if the user chose a memory policy.
 */
static bool may_share(const struct gf_context *context, const struct host_copy *copy)
{
    return gf_pool_helpers(context->pool) && gf_pool_threads(context->pool) > 1 &&
           !gf_is_realtime() && !gf_range_policy_is_users() &&
           gf_io_priority_is_for_all(copy->io_priority) && is_pinned(copy->to) &&
           is_pinned(copy->to + copy->bytes - 1) &&
           (copy->guarded ? may_guard(context, copy->to) : gf_populate_is_possible());
}

/* Whether the copy may be shared. Sets what the job needs. */
static bool prepare_copy(struct gf_context *context, struct host_copy *copy)
{
    copy->guarded = gf_faults_are_handled();
    copy->io_priority = gf_io_priority_get();
    gf_prepare_helpers(context->pool, gf_when_now);
    return may_share(context, copy);
}

/*
 * Returns how many bytes were copied from the start. The caller copies the other bytes, so that
 * faults occur on its thread. A handler may call the driver natively, so signals wait until the
 * driver was queried: it may hold a lock for the query.
 */
static size_t copy_in_context(char *to, const char *from, size_t bytes)
{
    struct host_copy copy = {
        .job = {.work = copy_piece}, .to = to, .from = from, .bytes = bytes, .caller = &here};
    const uint64_t blocked = GF_SIGNALS_BLOCKED,
                   pieces = (bytes + GF_TUNE_IMPORT_PIECE - 1) / GF_TUNE_IMPORT_PIECE;
    uint64_t before, failed = 0;
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof(before));
    struct gf_context *context = gf_context_enter();
    const bool shares = context && prepare_copy(context, &copy);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    if (shares && gf_import_owner_is_here()) /* a handler may have forked */
        failed = gf_pool_run(context->pool, &copy.job, pieces);
    if (context)
        gf_context_leave(context);
    pthread_setcancelstate(state, NULL);
    const size_t done = failed == GF_PIECE_NONE ? bytes : piece_start(failed);
    if (done) {
        gf_add_relaxed(&calls, 1);
        gf_add_relaxed(&copied, done);
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
        done = lead + copy_in_context((char *)to + lead, (const char *)from + lead, bytes - lead);
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

static _Atomic uint64_t read_calls, bytes_read;

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

/* The kernel reads at most this many bytes in one call. */
static size_t most_of_one_call(size_t bytes)
{
    return gf_min(bytes, INT_MAX / gf_page_size() * gf_page_size());
}

/*
 * Shares the call. False: nothing was read, and the caller must make the native call. The thread is
 * not cancelled meanwhile, because helpers would remain reserved.
 */
static bool share(int fd, void *to, size_t bytes, off_t offset, ssize_t *ret)
{
    const int error = errno;
    size_t shared = 0;
    int cancel;

    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    const bool done = gf_shared_read(fd, to, most_of_one_call(bytes), offset, ret, &shared);
    pthread_setcancelstate(cancel, NULL);
    if (!done || *ret >= 0)
        errno = error;
    if (shared) {
        gf_add_relaxed(&read_calls, 1);
        gf_add_relaxed(&bytes_read, shared);
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

void gf_replaced_calls_count(struct gf_import_count *ret_memcpy, struct gf_import_count *ret_read)
{
    *ret_memcpy = (struct gf_import_count){.calls = gf_load_relaxed(&calls),
                                           .bytes = gf_load_relaxed(&copied)};
    *ret_read = (struct gf_import_count){.calls = gf_load_relaxed(&read_calls),
                                         .bytes = gf_load_relaxed(&bytes_read)};
}
