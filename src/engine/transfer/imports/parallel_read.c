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
#include <stdio_ext.h>
#include <unistd.h>
#include <wchar.h>

/* Memory that the kernel places without a hint ends below this address. */
#if defined(__aarch64__)
#define ADDRESSES_END (UINT64_C(1) << 48)
#else
#define ADDRESSES_END ((UINT64_C(1) << 47) - GF_KIB(4))
#endif
/* libc reads into a buffer of fewer bytes even if it could read into the program's memory. */
#define LEAST_BLOCK 128

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

static size_t read_shared(int fd, char *to, size_t bytes, off_t offset)
{
    const size_t done = gf_shared_read(fd, to, bytes, offset);

    if (done) {
        gf_add_relaxed(&calls, 1);
        gf_add_relaxed(&bytes_read, done);
    }
    return done;
}

/* pread and read. */

/* The kernel reads at most this many bytes in one call. */
static size_t read_most(void)
{
    return INT_MAX / gf_page_size() * gf_page_size();
}

/*
 * Returns the result of a call that has read `done` bytes, and whose other bytes a native call has
 * read with the result `rest`. The kernel reports an error only if it has read no byte.
 */
static ssize_t sum_of(size_t done, ssize_t rest, int error)
{
    if (rest < 0 && done) {
        errno = error;
        return (ssize_t)done;
    }
    return (ssize_t)done + rest;
}

ssize_t gf_parallel_pread(int fd, void *to, size_t bytes, off_t offset)
{
    struct gf_shared_file file;
    size_t most, done;

    if (!may_share(to, bytes) || offset > INT64_MAX - (int64_t)bytes)
        return pread(fd, to, bytes, offset);
    pthread_testcancel();
    const int error = errno;
    bytes = gf_min(bytes, read_most());
    most = gf_shared_read_most(fd, bytes, offset, &file);
    done = most < GF_TUNE_IMPORT_LEAST ? 0 : read_shared(fd, to, most, offset);
    errno = error;
    return done && done == most
               ? (ssize_t)done
               : sum_of(done, pread(fd, (char *)to + done, bytes - done, offset + (off_t)done),
                        error);
}

/* The part of a read that several threads make. */
struct part {
    size_t done;
    bool is_last; /* the call is complete without the bytes behind the part */
};

/*
 * Advances the descriptor's offset and reads the bytes before the new offset. The kernel advances
 * the offset in one step, so threads and processes that share it never read a byte twice. If a
 * piece fails, the offset is set back, and the caller of this function reads on.
 */
static struct part read_and_advance(int fd, char *to, size_t bytes)
{
    struct gf_shared_file file;
    const off_t before = lseek(fd, 0, SEEK_CUR);
    const size_t most = before < 0 ? 0 : gf_shared_read_most(fd, bytes, before, &file);
    const off_t end = most < GF_TUNE_IMPORT_LEAST ? -1 : lseek(fd, (off_t)most, SEEK_CUR);
    struct part ret = {0};

    if (end < 0)
        return ret;
    ret.done = read_shared(fd, to, most, end - (off_t)most);
    ret.is_last = ret.done == most;
    if (ret.is_last || GF_MUTATED(keeps_the_offset))
        return ret;
    if (gf_shared_read_is_file(fd, &file))
        lseek(fd, (off_t)ret.done - (off_t)most, SEEK_CUR);
    else /* another thread has replaced the descriptor during the call */
        ret.is_last = ret.done > 0;
    return ret;
}

ssize_t gf_parallel_read(int fd, void *to, size_t bytes)
{
    if (!may_share(to, bytes))
        return read(fd, to, bytes);
    pthread_testcancel();
    const int error = errno;
    bytes = gf_min(bytes, read_most());
    const struct part part = read_and_advance(fd, to, bytes);
    errno = error;
    return part.is_last
               ? (ssize_t)part.done
               : sum_of(part.done, read(fd, (char *)to + part.done, bytes - part.done), error);
}

/* fread. The functions below are called while the calling thread holds the stream's lock. */

/* Whether the stream is in the ordinary state for reading bytes. */
static bool is_plain(FILE *stream)
{
    return !feof_unlocked(stream) && !ferror_unlocked(stream) && !__fwriting(stream) &&
           fwide(stream, 0) <= 0;
}

/*
 * Reads the bytes that the stream has in its buffer, at most `bytes`. Returns their number. Sets
 * *ret_offset to the descriptor's offset, from which libc would read the next bytes directly into
 * the program's memory; to -1 if that is not so.
 */
static size_t drain(FILE *stream, int fd, char *to, size_t bytes, off_t *ret_offset)
{
    const off_t position = ftello(stream), offset = lseek(fd, 0, SEEK_CUR);
    size_t done = 0;

    *ret_offset = -1;
    if (position < 0 || offset < position || (uint64_t)(offset - position) >= bytes)
        return 0;
    done = fread_unlocked(to, 1, (size_t)(offset - position), stream);
    if (position + (off_t)done == offset && lseek(fd, 0, SEEK_CUR) == offset)
        *ret_offset = offset;
    return GF_MUTATED(drops_buffered) ? 0 : done;
}

/*
 * Reads whole blocks of the stream's buffer size, which libc would read directly into the program's
 * memory, and advances the stream. If the descriptor's offset is a multiple of that size before and
 * after, fseeko only sets it, and the stream's buffer is as after libc's read.
 */
static size_t read_blocks(FILE *stream, int fd, char *to, size_t bytes, off_t offset)
{
    const size_t block = __fbufsize(stream);

    if ((block < LEAST_BLOCK && block != 1) || (block & (block - 1)) || (size_t)offset % block)
        return 0;
    const size_t done = read_shared(fd, to, bytes / block * block, offset) / block * block;
    if (!done)
        return 0;
    if (GF_MUTATED(keeps_the_position))
        return done;
    return fseeko(stream, offset + (off_t)done, SEEK_SET) == 0 ? done : 0;
}

/* Returns how many bytes were read. */
static size_t read_stream(FILE *stream, char *to, size_t bytes)
{
    const int fd = fileno_unlocked(stream);
    struct gf_shared_file file;
    off_t offset = fd < 0 || !is_plain(stream) ? -1 : lseek(fd, 0, SEEK_CUR);
    size_t done = 0;

    if (offset < 0 || gf_shared_read_most(fd, bytes, offset, &file) < GF_TUNE_IMPORT_LEAST)
        return 0;
    /* libc allocates the buffer of a new stream within its first read */
    if (!__fbufsize(stream) && (done = fread_unlocked(to, 1, 1, stream)) == 0)
        return 0;
    done += drain(stream, fd, to + done, bytes - done, &offset);
    return offset < 0 ? done : done + read_blocks(stream, fd, to + done, bytes - done, offset);
}

size_t gf_parallel_fread(void *to, size_t size, size_t count, FILE *stream)
{
    size_t bytes, done;
    int cancel;

    if (__builtin_mul_overflow(size, count, &bytes) || !may_share(to, bytes))
        return fread(to, size, count, stream);
    pthread_testcancel();
    /* a thread that ended here would keep the stream's lock */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    const int error = errno;
    flockfile(stream);
    done = read_stream(stream, to, bytes);
    errno = error;
    if (done && done < bytes)
        done += fread_unlocked((char *)to + done, 1, bytes - done, stream);
    funlockfile(stream);
    pthread_setcancelstate(cancel, NULL);
    return done ? done / size : fread(to, size, count, stream);
}

void gf_parallel_read_count(struct gf_import_count *ret)
{
    *ret = (struct gf_import_count){.calls = gf_load_relaxed(&calls),
                                    .bytes = gf_load_relaxed(&bytes_read)};
}
