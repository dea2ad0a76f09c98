/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "abi/gputime_api.h"
#include "base/base.h"

/*
 * Keeps a copy of several DMAs whole. To all other threads, a copy is one operation of its stream:
 * what they put on the stream comes before all its DMAs or after them. So such a copy holds its
 * stream, from its first DMA to its last one, and before a call of another thread puts something on
 * the stream, the call's hook waits.
 *
 * The two sides meet in a Dekker-style handshake. A hook stores the stream of its call in the
 * thread's record, then loads the number of holds (abi/gputime_api.h). A copy adds its hold, then
 * loads the records. So at least one of the two sees the other. If the copy sees the call, it does
 * not hold the stream, and is not cut into several DMAs. If the hook sees the hold, it waits.
 *
 * The driver keeps a copy whole, too: it locks the stream until the copying call returns, without a
 * limit (docs/transfers.md). A hook's wait has a limit, because the program's thread may hold a lock
 * that the copy needs, for example in its handler of SIGSEGV. If the copy makes no progress for
 * GF_TUNE_HOLD_NS, the hook ends the hold, and goes on. A copy whose thread is runnable may only wait
 * for a CPU, so it has GF_TUNE_HOLD_MOST_NS.
 *
 * A thread never waits for a hold of its own. The functions may be called on any thread.
 */

/* A hold of the calling thread. */
struct gf_hold {
    unsigned entry;
    bool is_batch;       /* it is the hold of the thread's batch, which ends with the batch */
    bool follows_legacy; /* the stream is not the legacy stream, and waits for its work */
    uint64_t ticket;     /* 0: nothing is held */
};

/* Makes the hooks record submissions. Called once, before any copy. */
void gf_hold_start(void);

/*
 * Whether several threads have used the stream at the same time: in the last GF_TUNE_SHARED_NS, a
 * call met a hold of it. Copies on such a stream should not hold it.
 */
bool gf_hold_is_shared(CUstream stream, CUcontext context);
/*
 * Whether another thread is inside a call that puts something on any stream. One such thread is not
 * noticed by a caller that shares its record and is inside no such call itself.
 */
bool gf_hold_others_submit(void);
/* Remembers that several threads use the stream at the same time. */
void gf_hold_note_shared(CUstream stream, CUcontext context);

/*
 * Whether the calling thread has a record of its own. Else its copies hold nothing, and no thread
 * that destroys their stream knows of them, so they must not wait for it.
 */
bool gf_hold_is_possible(void);
/*
 * Publishes stream and context of the copy that the calling thread is inside, the context until the hook
 * leaves its call. So copies in other contexts know that this copy does not concern them. From now on the
 * copy notices that another thread destroys its stream.
 */
void gf_hold_publish(CUstream stream, CUcontext context);

/*
 * Called after a copy has waited for its stream. False: another thread has destroyed the stream
 * meanwhile. Its work is done, but the copy must not use it any more. Otherwise no thread destroys it
 * until gf_hold_used_stream, which is called when the copy holds the stream, or has been made, also by
 * the driver.
 */
bool gf_hold_uses_stream(CUstream stream);
void gf_hold_used_stream(void);

/*
 * Holds the stream. False: another thread is inside a call that may put something on the stream, or
 * there are too many holds. If the calling thread's batch holds the stream already, *ret is the
 * batch's hold.
 */
bool gf_hold_begin(CUstream stream, CUcontext context, struct gf_hold *ret);
/*
 * Called when the copy has decided to issue several DMAs. A call that meets the hold from now on
 * makes the stream count as shared.
 */
void gf_hold_cut(const struct gf_hold *hold);
/*
 * Called when the copy reads a file: only the kernel can keep it waiting, and a slow disk does so for
 * long. A call then waits without progress for GF_TUNE_HOLD_MOST_NS.
 */
void gf_hold_reads_file(const struct gf_hold *hold);
/*
 * Called before and after the copy waits for one of its DMAs. Large transfers of other streams may
 * occupy the link for long. A call then waits for GF_TUNE_HOLD_DMA_NS without progress.
 */
void gf_hold_awaits_dma(const struct gf_hold *hold, bool awaits);
/* Called when a piece was copied or a DMA has ended, also by helpers. */
void gf_hold_progress(const struct gf_hold *hold);
/*
 * Called around each DMA. False: another thread has ended the hold, and may have put work on the
 * stream, so the DMA must not go to this stream: the copy would wait for that work, which may wait for
 * the copy. Otherwise the hold cannot be ended until gf_hold_issue_end.
 */
bool gf_hold_issue_begin(const struct gf_hold *hold, struct gf_hold *ret_issuing);
void gf_hold_issue_end(const struct gf_hold *issuing);
/* Does nothing if nothing is held, or if the hold is that of a batch. */
void gf_hold_end(struct gf_hold *hold);

/*
 * Holds the stream for all members of a batch of the calling thread, and uses it, until
 * gf_hold_end_batch. The result is false as for gf_hold_begin, or if the stream was destroyed.
 */
bool gf_hold_begin_batch(CUstream stream, CUcontext context);
void gf_hold_end_batch(void);
/* Whether the calling thread's batch holds the stream, and no other thread has ended that hold. */
bool gf_hold_is_batch(CUstream stream, CUcontext context);

/*
 * Waits while another thread's copy holds the stream, or a stream that is ordered with it. Ends at
 * once on a thread of the driver (which runs host functions), and if the stream is being captured.
 * begins_capture: waits only for batches, because a single copy leaves a stream that is captured.
 */
void gf_hold_await(CUstream stream, bool begins_capture);

/*
 * Whether a stream has unfinished work with results that the program may look at in its own memory
 * without a call, such as copies to page-locked memory (struct gf_visible). Above 2 MiB the driver's
 * asynchronous copy from pageable memory waits for such work, and programs rely on that.
 */

/* The count of a stream before a wait for this stream. */
struct gf_visible_mark {
    struct gf_visible *of; /* NULL: unknown, or the results of other contexts are counted, too */
    uint32_t made;
};

/*
 * Returns whether visible results may be pending on the stream, or on one with which it is ordered.
 * If nothing is known about the stream, the result is true. context: the stream's.
 */
bool gf_visible_is_pending(CUstream stream, CUcontext context, struct gf_visible_mark *ret);
/* Called after the calling thread has waited for the stream since gf_visible_is_pending. */
void gf_visible_waited(const struct gf_visible_mark *mark);
