/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small pinned blocks. The driver cuts them out of mappings of 2 MiB; what takes it half a
 * millisecond is to make such a mapping for the first block and to give it back with the last. So
 * every call stays the driver's own, with the caller's arguments, and all that is done here is to
 * keep one mapping of a context in being: by a tiny block of ours, an anchor, that is allocated just
 * before the program's first one.
 *
 * Where the driver would have made a mapping anew, its blocks would have been zero: what is handed
 * out of a mapping that only an anchor kept is zeroed, and nothing else. And they would have had
 * the flags of the block for which it was made: gf_small_flags.
 *
 * Any thread; no lock is held over a CUDA call. An allocation never waits for the device, since the
 * driver's does not: anchors are freed inside frees only, which wait as the program's own do.
 */
#ifndef GF_TRANSFER_SMALL_H
#define GF_TRANSFER_SMALL_H

#include "base/base.h"
#include "hook/cuda.h"

#define GF_SMALL_MOST ((size_t)1 << 20) /* larger blocks have mappings of their own */
#define GF_SMALL_CHUNK ((size_t)2 << 20)

/* Whether the driver has the calls that it takes. */
bool gf_small_can(const struct gf_cuda *cuda);

/*
 * cuMemHostAlloc of at most GF_SMALL_MOST bytes in the context with this id, which is current. A
 * mapping is kept from now on if those of all contexts are then at most `most`.
 */
CUresult gf_small_alloc(const struct gf_cuda *cuda, uint64_t context, unsigned most, void **pp,
                        size_t bytes, unsigned flags);

/*
 * cuMemFreeHost. False: the block is not one of those that gf_small_alloc gave; the driver's own
 * call is due. *ret_kept is the context whose anchor alone keeps its mapping now: natively the call would have
 * waited for that context and given the mapping back. 0: it would not have.
 */
bool gf_small_free(const struct gf_cuda *cuda, void *p, CUresult *ret_result, uint64_t *ret_kept);

/* cuMemHostUnregister of what the program does not know; false: it is nothing of ours. */
bool gf_small_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result);

/* The driver has said these flags of p: makes them those that it would have said without us. */
void gf_small_flags(const struct gf_cuda *cuda, const void *p, unsigned *flags);

/*
 * Gives up the context's anchor, the current one's, if nothing of the program's is in its mapping.
 * Inside a call of the program's that may wait. Whether there was anything to give.
 */
bool gf_small_trim(const struct gf_cuda *cuda, uint64_t context);

/* The context is gone, and its mappings with it. */
void gf_small_forget(uint64_t context);

/* For reports: bytes that only anchors keep, in all contexts. */
uint64_t gf_small_kept(void);

#endif
