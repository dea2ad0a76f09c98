/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/imports/parallel_read.h"

#include "base/atomic.h"
#include "engine/transfer/imports/import_owner.h"
#include "engine/transfer/imports/shared_read.h"
#include "engine/transfer/memory/page.h"
#include "engine/transfer/setup/mutation.h"
#include "engine/transfer/setup/tuning.h"
#include "os/permit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

/* Memory that the kernel places without a hint ends below this address. */
#if defined(__aarch64__)
#define ADDRESSES_END (UINT64_C(1) << 48)
#else
#define ADDRESSES_END ((UINT64_C(1) << 47) - GF_KIB(4))
#endif

static _Atomic uint64_t calls, bytes_read;

/*
 * Whether a call with this target may be shared. Before it reads, the kernel checks the addresses
 * of the whole target, also of the part that will get no bytes.
 */
static bool may_share(const void *to, size_t bytes)
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

/* Reads on several threads. Returns how many bytes at the start of the range were read. */
static size_t read_shared(const struct gf_shared_plan *plan, int fd, char *to, off_t offset)
{
    const size_t done = gf_shared_read(plan, fd, to, offset);

    if (done) {
        gf_add_relaxed(&calls, 1);
        gf_add_relaxed(&bytes_read, done);
    }
    return done;
}

/*
 * Reads natively what the threads could not read after `done` bytes, so the kernel decides on result
 * and errno. It reports an error only if the call has read no byte. Returns the result of the call.
 */
static ssize_t read_rest(const struct gf_shared_plan *plan, int fd, char *to, size_t done,
                         off_t offset)
{
    ssize_t rest = 0;

    if (!done)
        return pread(fd, to, plan->bytes, offset);
    /* Another thread may have replaced the descriptor. Then the rest would be of another file. */
    if (done < plan->bytes && gf_shared_read_is_file(fd, &plan->file))
        rest = pread(fd, to + done, plan->bytes - done, offset + (off_t)done);
    return (ssize_t)done + (rest > 0 && gf_shared_read_is_file(fd, &plan->file) ? rest : 0);
}

/*
 * The functions that share a call return false if the call is not shared, and nothing was read.
 * They are not cancelled, because a thread that ended within them would keep helpers reserved. They
 * may change errno.
 */

static bool share_pread(int fd, void *to, size_t bytes, off_t offset, ssize_t *ret)
{
    struct gf_shared_plan plan;

    if (!gf_shared_read_plan(fd, bytes, offset, &plan))
        return false;
    *ret = read_rest(&plan, fd, to, read_shared(&plan, fd, to, offset), offset);
    return true;
}

/*
 * Plans a read at the descriptor's offset, and advances the offset. The kernel advances it in one
 * step, so threads and processes that share it read different bytes. Returns the offset from which to
 * read; -1 if the call is not shared. Sets *ret_moved if others have moved the offset meanwhile.
 */
static off_t plan_and_advance(int fd, size_t bytes, struct gf_shared_plan *ret, bool *ret_moved)
{
    const off_t before = lseek(fd, 0, SEEK_CUR);

    if (before < 0 || !gf_shared_read_plan(fd, bytes, before, ret))
        return -1;
    const off_t end = lseek(fd, (off_t)ret->bytes, SEEK_CUR);
    if (end >= 0 && gf_shared_read_is_file(fd, &ret->file)) {
        *ret_moved = end - (off_t)ret->bytes != before;
        return GF_MUTATED(ignores_others) ? before : end - (off_t)ret->bytes;
    }
    if (end >= 0) /* another thread has replaced the descriptor */
        lseek(fd, -(off_t)ret->bytes, SEEK_CUR);
    gf_shared_read_drop(ret);
    return -1;
}

/*
 * Sets the offset back by the bytes that were planned but not read. If another thread has moved the
 * offset during the call, it stays: that thread may have set it. If others moved it between the two
 * calls of lseek in plan_and_advance, this call planned for bytes that they got, and may have advanced
 * it beyond the end of the file. Then it is set back in any case.
 */
static void set_back(int fd, const struct gf_shared_plan *plan, off_t end, off_t missing,
                     bool was_moved)
{
    if (!missing || GF_MUTATED(keeps_the_offset) || !gf_shared_read_is_file(fd, &plan->file) ||
        !gf_import_owner_is_here() || (!was_moved && lseek(fd, 0, SEEK_CUR) != end))
        return;
    lseek(fd, -missing, SEEK_CUR);
}

/*
 * The call never reads at the descriptor's offset, which others may have advanced meanwhile. If it
 * gets fewer bytes than planned, it sets the offset back.
 */
static bool share_read(int fd, void *to, size_t bytes, ssize_t *ret)
{
    struct gf_shared_plan plan;
    bool was_moved = false;
    const off_t start = plan_and_advance(fd, bytes, &plan, &was_moved);

    if (start < 0)
        return false;
    const size_t done = read_shared(&plan, fd, to, start);
    if (!done && !gf_shared_read_is_file(fd, &plan.file))
        return false; /* the descriptor is another file now, which the native call reads */
    *ret = read_rest(&plan, fd, to, done, start);
    const int error = errno;
    set_back(fd, &plan, start + (off_t)plan.bytes, (off_t)plan.bytes - gf_max(*ret, (ssize_t)0),
             was_moved);
    errno = error;
    return true;
}

ssize_t gf_parallel_pread(int fd, void *to, size_t bytes, off_t offset)
{
    const int error = errno;
    bool is_shared;
    ssize_t ret;
    int cancel;

    if (!may_share(to, bytes) || offset < 0 || offset > INT64_MAX - (int64_t)bytes)
        return pread(fd, to, bytes, offset);
    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    is_shared = share_pread(fd, to, most_of_one_call(bytes), offset, &ret);
    pthread_setcancelstate(cancel, NULL);
    if (!is_shared || ret >= 0)
        errno = error;
    return is_shared ? ret : pread(fd, to, bytes, offset);
}

ssize_t gf_parallel_read(int fd, void *to, size_t bytes)
{
    const int error = errno;
    bool is_shared;
    ssize_t ret;
    int cancel;

    if (!may_share(to, bytes))
        return read(fd, to, bytes);
    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    is_shared = share_read(fd, to, most_of_one_call(bytes), &ret);
    pthread_setcancelstate(cancel, NULL);
    if (!is_shared || ret >= 0)
        errno = error;
    return is_shared ? ret : read(fd, to, bytes);
}

void gf_parallel_read_count(struct gf_import_count *ret)
{
    *ret = (struct gf_import_count){.calls = gf_load_relaxed(&calls),
                                    .bytes = gf_load_relaxed(&bytes_read)};
}
