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

/*
 * Reads natively what the threads could not read after `done` bytes, so the kernel decides on result
 * and errno. It reports an error only if the call has read no byte. Returns the result of the call.
 */
static ssize_t read_rest(const struct gf_shared_plan *plan, int fd, char *to, size_t done,
                         off_t offset)
{
    const int error = errno;
    ssize_t rest = 0;

    /* Another thread may have replaced the descriptor. Then the rest would be of another file. */
    if (done && !gf_shared_read_is_file(fd, &plan->file)) {
        errno = error;
        return (ssize_t)done;
    }
    rest = pread(fd, to + done, plan->bytes - done, offset + (off_t)done);
    if (!done)
        return rest;
    rest = rest > 0 && gf_shared_read_is_file(fd, &plan->file) ? rest : 0;
    errno = error;
    return (ssize_t)done + rest;
}

/* Makes a planned read, and returns the result of the call. On success, errno is as before. */
static ssize_t make(const struct gf_shared_plan *plan, int fd, char *to, off_t offset)
{
    const int error = errno;
    const size_t done = gf_shared_read(plan, fd, to, offset);

    errno = error;
    if (!done)
        return read_rest(plan, fd, to, 0, offset);
    gf_add_relaxed(&calls, 1);
    gf_add_relaxed(&bytes_read, done);
    return done < plan->bytes ? read_rest(plan, fd, to, done, offset) : (ssize_t)done;
}

/*
 * The functions that share a call return false if the call is not shared, and nothing was read.
 * They are not cancelled, because a thread that ended within them would keep helpers reserved.
 */

static bool share_pread(int fd, void *to, size_t bytes, off_t offset, ssize_t *ret)
{
    struct gf_shared_plan plan;

    if (!gf_shared_read_plan(fd, bytes, offset, &plan))
        return false;
    *ret = make(&plan, fd, to, offset);
    return true;
}

/*
 * Advances the descriptor's offset, and reads the bytes before the new offset. The kernel advances
 * the offset in one step, so threads and processes that share it read other bytes. The call itself
 * never reads at the descriptor's offset, which others may have advanced meanwhile. If it gets fewer
 * bytes than planned, it sets the offset back.
 */
static bool share_read(int fd, void *to, size_t bytes, ssize_t *ret)
{
    struct gf_shared_plan plan;
    const off_t before = lseek(fd, 0, SEEK_CUR);

    if (before < 0 || !gf_shared_read_plan(fd, bytes, before, &plan))
        return false;
    const off_t end = lseek(fd, (off_t)plan.bytes, SEEK_CUR);
    if (end < 0) {
        gf_shared_read_drop(&plan);
        return false;
    }
    *ret = make(&plan, fd, to, GF_MUTATED(ignores_others) ? before : end - (off_t)plan.bytes);
    const int error = errno;
    const off_t missing = (off_t)plan.bytes - gf_max(*ret, (ssize_t)0);
    if (missing && !GF_MUTATED(keeps_the_offset) && gf_shared_read_is_file(fd, &plan.file))
        lseek(fd, -missing, SEEK_CUR);
    errno = error;
    return true;
}

ssize_t gf_parallel_pread(int fd, void *to, size_t bytes, off_t offset)
{
    bool is_shared;
    ssize_t ret;
    int cancel;

    if (!may_share(to, bytes) || offset < 0 || offset > INT64_MAX - (int64_t)bytes)
        return pread(fd, to, bytes, offset);
    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    is_shared = share_pread(fd, to, most_of_one_call(bytes), offset, &ret);
    pthread_setcancelstate(cancel, NULL);
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
    if (is_shared)
        return ret;
    errno = error;
    return read(fd, to, bytes);
}

void gf_parallel_read_count(struct gf_import_count *ret)
{
    *ret = (struct gf_import_count){.calls = gf_load_relaxed(&calls),
                                    .bytes = gf_load_relaxed(&bytes_read)};
}
