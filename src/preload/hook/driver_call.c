/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/driver_call.h"

#include "preload/attach/attach.h"
#include "preload/hook/timed_call.h"

static CUcontext current_context(const struct gf_cuda *cuda)
{
    CUcontext context = NULL;
    return cuda->cuCtxGetCurrent && cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context
                                                                                    : NULL;
}

static int current_device(const struct gf_cuda *cuda)
{
    CUdevice device;
    return cuda->cuCtxGetDevice && cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

/*
 * Reads facts about a stream. Returns false while a capture is open, because then no stream may be
 * queried. Also returns false for streams of green contexts and of contexts that are not current.
 * The library would not know the device of such a context, or when the context ends.
 */
static bool read_facts(CUstream stream, struct gf_stream_facts *ret)
{
    const struct gf_cuda *cuda = gf_driver_functions();
    CUcontext context = NULL;
    unsigned flags = 0;

    if (gf_load_relaxed(&gf_submissions.captures) || !cuda->cuStreamGetCtx ||
        cuda->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS || !context ||
        context != current_context(cuda) || !gf_stream_is_uncaptured(cuda, stream))
        return false;
    ret->context = context;
    ret->device = current_device(cuda);
    if (!cuda->cuStreamGetFlags || cuda->cuStreamGetFlags(stream, &flags) != CUDA_SUCCESS)
        return false;
    ret->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    return ret->device >= 0;
}

static bool read_no_facts(CUstream stream, struct gf_stream_facts *ret)
{
    (void)stream;
    (void)ret;
    return false;
}

/*
 * Remembers that the stream cannot be listed. A capture prevents that only until it ends, so the
 * stream is then tried again at each launch, which needs no call of the driver.
 */
static void remember_unlisted(CUstream stream, unsigned epoch)
{
    if (gf_load_relaxed(&gf_submissions.captures))
        return;
    const int device = current_device(gf_driver_functions());
    if (device >= 0)
        gf_unlisted_add(stream, epoch, device);
}

_Atomic unsigned *gf_submit_find(unsigned set, CUstream stream, uintptr_t *ret_stream)
{
    static _Atomic unsigned no_gap = ~0U; /* the record of work of a launch that ends no gap */
    const int error = errno;
    const unsigned epoch = gf_load_acquire(&gf_submissions_epoch);
    const struct gf_unlisted *unlisted = gf_unlisted_find(stream, epoch);
    struct gf_stream_slot *slot =
        gf_submissions_list(stream, unlisted ? read_no_facts : read_facts);

    if (!slot && !unlisted)
        remember_unlisted(stream, epoch);
    errno = error;
    if (slot) {
        *ret_stream = gf_submissions_stream_of(slot, stream);
        return &slot->work;
    }
    gf_count_add(set, &gf_submissions.submitters[set - 1].unlisted, 1);
    return unlisted && !gf_submissions_has_gap(unlisted->device) ? &no_gap
                                                                 : &gf_submissions_elsewhere;
}

void gf_submit_first(const struct gf_submission *submission)
{
    gf_keep_errno();
    const struct gf_cuda *cuda = gf_driver_functions();
    const CUcontext context = current_context(cuda);
    const int device = context ? current_device(cuda) : -1;

    if (context) {
        if (gf_submissions_list_context(context, device))
            /* The sampler starts when the first context gets work. */
            GF_WITH_ENGINE(if (engine->work_seen) engine->work_seen());
        gf_submissions_end_gap(device);
    }
    /*
     * Work of unlisted streams is not recorded. The sampler would never clear such a record, so the
     * record would hide the end of the next gap.
     */
    if (submission->stream_work != &gf_submissions_elsewhere)
        atomic_fetch_or(submission->stream_work, submission->work);
}

static bool is_predefined(CUstream stream)
{
    return (uintptr_t)stream < GF_SUBMIT_FILLING;
}

/*
 * Work of a stream that is being captured does not run now. The graph's launch counts. Before the
 * engine is loaded, no stream is listed; when a stream is, it has an unknown result at first.
 */
static void note_uncounted(CUstream stream, CUcontext context)
{
    if (!gf_submissions_on())
        gf_visible_add(gf_visible_of_legacy(&gf_submissions, context), (uintptr_t)context);
    else if (gf_stream_is_uncaptured(gf_driver_functions(), stream))
        gf_store_relaxed(&gf_submissions.uncounted_visible, true);
}

CUresult gf_submit_visible(CUstream stream, CUresult result)
{
    if (gf_thread.ours)
        return result;
    gf_keep_errno();
    const CUcontext context = current_context(gf_driver_functions());
    struct gf_visible *visible = gf_submissions_visible(stream, context);
    if (!visible) {
        note_uncounted(stream, context);
        return result;
    }
    const uint32_t first = gf_load_acquire(&visible->first); /* before the addition */
    gf_visible_add(visible,
                   is_predefined(stream) ? (uintptr_t)context : gf_load_relaxed(&visible->context));
    /*
     * Another thread may have unlisted the stream, and handed on its results, before this one, and
     * may have listed it again.
     */
    gf_submit_fence();
    if (!is_predefined(stream) && (gf_submissions_visible(stream, context) != visible ||
                                   gf_load_relaxed(&visible->first) != first))
        gf_store_relaxed(&gf_submissions.uncounted_visible, true);
    return result;
}

struct gf_visible *gf_submit_await_visible(CUstream stream, uint32_t *ret_made)
{
    if (!gf_submissions_on())
        return NULL;
    gf_keep_errno();
    const CUcontext context = current_context(gf_driver_functions());
    struct gf_visible *visible = gf_submissions_visible(stream, context);

    *ret_made = visible ? gf_load_acquire(&visible->made) : 0;
    return visible && gf_load_relaxed(&visible->context) == (uintptr_t)context &&
                   gf_submissions_visible(stream, context) == visible
               ? visible
               : NULL;
}

void gf_submit_await(CUstream stream, bool begins_capture)
{
    const unsigned inside = gf_thread.inside;

    gf_thread.inside = 0; /* a signal handler may have interrupted the engine */
    GF_WITH_TRANSFER(if (transfer->await_hold) transfer->await_hold(stream, begins_capture));
    gf_thread.inside = inside;
}
