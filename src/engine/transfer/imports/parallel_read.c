/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/imports/parallel_read.h"

#include "base/atomic.h"
#include "engine/transfer/imports/import_owner.h"
#include "engine/transfer/imports/shared_read.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/tuning.h"
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
        gf_add_relaxed(&calls, 1);
        gf_add_relaxed(&bytes_read, shared);
    }
    return done;
}

ssize_t gf_parallel_pread(int fd, void *to, size_t bytes, off_t offset)
{
    ssize_t ret;

    return may_share(to, bytes) && offset >= 0 && offset <= INT64_MAX - (int64_t)bytes &&
                   share(fd, to, bytes, offset, &ret)
               ? ret
               : pread(fd, to, bytes, offset);
}

ssize_t gf_parallel_read(int fd, void *to, size_t bytes)
{
    ssize_t ret;

    return may_share(to, bytes) && share(fd, to, bytes, GF_AT_OFFSET, &ret) ? ret
                                                                            : read(fd, to, bytes);
}

void gf_parallel_read_count(struct gf_import_count *ret)
{
    *ret = (struct gf_import_count){.calls = gf_load_relaxed(&calls),
                                    .bytes = gf_load_relaxed(&bytes_read)};
}
