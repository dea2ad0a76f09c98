/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/memcpy/parallel_memcpy.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/transfer/context/context.h"
#include "engine/transfer/memcpy/memcpy_slot.h"
#include "engine/transfer/memory/guarded_copy.h"
#include "engine/transfer/memory/nt_copy.h"
#include "engine/transfer/memory/populate.h"
#include "engine/transfer/pool/prepare.h"
#include "engine/transfer/setup/mutation.h"
#include "engine/transfer/setup/setup.h"
#include "engine/transfer/setup/tuning.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define LINE ((uintptr_t)64) /* gf_nt_copy writes whole cache lines */

/*
 * The beginnings of the file names of such libraries. In safetensors 0.8.0,
 * load_file(device="cuda") copies each tensor from the mapped file into a pinned buffer.
 */
static const char *const libraries[] = {"_safetensors_rust."};

/* the process in which helpers may copy; forked children have no helpers */
static _Atomic pid_t owner;
static _Atomic bool requested;
static _Atomic uint64_t next_request_ns;
static _Atomic uint64_t calls, copied, replaced;

/* Copying. */

struct host_copy {
    struct gf_job job;
    char *to;
    const char *from;
    size_t bytes;
    /*
     * The program handles page faults itself. Then the kernel copies (guarded_copy.h), and returns
     * an error where an access by a thread would raise a signal. A helper blocks signals, and a
     * signal handler on the calling thread might leave this function by longjmp while helpers work
     * on the job.
     */
    bool guarded;
};

static size_t piece_start(uint64_t piece)
{
    return (size_t)piece * GF_TUNE_MEMCPY_PIECE;
}

static bool copy_piece(struct gf_job *job, uint64_t piece)
{
    const struct host_copy *copy = (struct host_copy *)job;
    const size_t start = piece_start(piece);
    const size_t bytes = gf_min(GF_TUNE_MEMCPY_PIECE, copy->bytes - start);

    if (GF_MUTATED(skips_a_piece) && piece == 1)
        return true;
    if (copy->guarded)
        return gf_guarded_write(copy->to + start, copy->from + start, bytes);
    if (!GF_MUTATED(touches_blindly) && !gf_populate_pages(copy->from + start, bytes, false))
        return false;
    gf_nt_copy(copy->to + start, copy->from + start, bytes);
    return true;
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
 * Returns how many bytes were copied from the start. The caller copies the other bytes, so that
 * faults occur on its thread.
 */
static size_t copy_shared(const struct gf_context *context, char *to, const char *from,
                          size_t bytes)
{
    struct host_copy copy = {.job = {.work = copy_piece},
                             .to = to,
                             .from = from,
                             .bytes = bytes,
                             .guarded = gf_faults_are_handled()};

    gf_prepare_helpers(context->pool, gf_when_now);
    if (!gf_pool_helpers(context->pool) || gf_pool_threads(context->pool) < 2 || !is_pinned(to) ||
        !is_pinned(to + bytes - 1) ||
        (copy.guarded ? !gf_guarded_copy_is_possible() : !gf_populate_is_possible()))
        return 0;
    const uint64_t failed = gf_pool_run(context->pool, &copy.job,
                                        (bytes + GF_TUNE_MEMCPY_PIECE - 1) / GF_TUNE_MEMCPY_PIECE);
    return failed == GF_PIECE_NONE ? bytes : piece_start(failed);
}

static size_t copy_in_context(char *to, const char *from, size_t bytes)
{
    struct gf_context *context = gf_context_enter();
    size_t done = 0;
    int state;

    if (!context)
        return 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    done = copy_shared(context, to, from, bytes);
    pthread_setcancelstate(state, NULL);
    gf_context_leave(context);
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

    if (bytes >= GF_TUNE_MEMCPY_LEAST && are_disjoint(to, from, bytes) &&
        getpid() == gf_load_relaxed(&owner)) {
        const int error = errno;
        const size_t lead = -(uintptr_t)to % LINE;
        memcpy(to, from, lead);
        done = lead + copy_in_context((char *)to + lead, (const char *)from + lead, bytes - lead);
        errno = error;
    }
    memcpy((char *)to + done, (const char *)from + done, bytes - done);
    return to;
}

/* Replacing pointers. */

static bool is_listed(const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

    for (size_t i = 0; i < GF_ARRAY_LEN(libraries); i++)
        if (strncmp(file, libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *closure)
{
    /* how often the loader's list of objects has changed; guarded by the loader's lock */
    static unsigned long long changes;

    (void)size;
    if (*(bool *)closure) {
        *(bool *)closure = false;
        if (changes == info->dlpi_adds + info->dlpi_subs)
            return 1;
        changes = info->dlpi_adds + info->dlpi_subs;
    }
    if (is_listed(info->dlpi_name) && gf_memcpy_slot_replace(info, gf_parallel_memcpy)) {
        gf_add_relaxed(&replaced, 1);
        gf_debug("several threads share the copies that %s makes into pinned memory",
                 info->dlpi_name);
    }
    return 0;
}

static bool is_on(void)
{
    return gf_setup.options->parallel_memcpy == gf_parallel_memcpy_on &&
           gf_setup.options->mode == gf_mode_on && gf_setup.cuda->cuPointerGetAttributes;
}

void gf_parallel_memcpy_request(size_t bytes)
{
    if (bytes < GF_TUNE_MEMCPY_LEAST || !is_on())
        return;
    const uint64_t now = gf_now_ns();
    if (now < gf_load_relaxed(&next_request_ns))
        return;
    gf_store_relaxed(&next_request_ns, now + GF_TUNE_MEMCPY_LOOK_NS);
    gf_store_release(&requested, true);
    gf_prepare_request(gf_when_now);
}

void gf_parallel_memcpy_prepare(void)
{
    bool first = true;

    if (!gf_exchange_acq_rel(&requested, false))
        return;
    gf_store_relaxed(&owner, getpid());
    dl_iterate_phdr(visit_object, &first);
}

void gf_parallel_memcpy_count(struct gf_memcpy_count *ret)
{
    *ret = (struct gf_memcpy_count){gf_load_relaxed(&replaced), gf_load_relaxed(&calls),
                                    gf_load_relaxed(&copied)};
}
