/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every figure that a measurement chose, in one place: sizes in bytes, times in nanoseconds.
 * docs/transfers.md says what each was measured against.
 */
#ifndef GF_TRANSFER_TUNING_H
#define GF_TRANSFER_TUNING_H

#define GF_KIB(n) ((size_t)(n) << 10)
#define GF_MIB(n) ((size_t)(n) << 20)

/* Pool: threads that copy at once for one node, the calling one included, where nobody says. */
#define GF_TUNE_THREADS 12
/* Copies below this are over before more than so many helpers are awake. */
#define GF_TUNE_HELPERS_SMALL 7
#define GF_TUNE_SMALL GF_MIB(32)
/* Of the others, too, more are no faster... */
#define GF_TUNE_HELPERS 9
/* ...but for those to the device from so many bytes on, where the pool has so many threads: what they write into the
 * ring stays in the cache that all processors share, which takes who writes it longer. */
#define GF_TUNE_DEMOTED GF_MIB(16)
#define GF_TUNE_DEMOTED_THREADS 12
/* How long a helper looks for more, before it sleeps: while a job is open, and with none. */
#define GF_TUNE_HELPER_SPIN_NS 100000
#define GF_TUNE_IDLE_SPIN_NS 30000
/* How long a caller looks for its helpers' last pieces, before it sleeps. */
#define GF_TUNE_CALLER_SPIN_NS 50000

/* Pinned allocations from here on are mappings of ours: with 4 KiB pages, and with huge ones. */
#define GF_TUNE_PIN_LARGE GF_MIB(32)
#define GF_TUNE_PIN_LARGE_HUGE GF_MIB(16)
/* With fewer threads than that, and 4 KiB pages, they would take as long as the driver's. */
#define GF_TUNE_PIN_THREADS 4
/* Memory that large pinned allocations leave to others, besides an eighth of what there is. */
#define GF_TUNE_PIN_RESERVE GF_MIB(64)
/* How much memory is left is looked at each time so much has been touched. */
#define GF_TUNE_TOUCH_STEP GF_MIB(256)
/* A buffer's mappings are no smaller than this, and larger when there are so many of ours already. */
#define GF_TUNE_PIN_MAPPING_LEAST GF_MIB(32)
#define GF_TUNE_PIN_MAPPINGS 32
#define GF_TUNE_PIN_MAPPING_MANY GF_MIB(256)
/* What is kept of small blocks' mappings, and how often the memory left is looked at. */
#define GF_TUNE_PIN_CACHE GF_MIB(64)
#define GF_TUNE_PIN_LOOK_NS UINT64_C(1000000000)
/* Registrations of absent pages from here on are touched beforehand. */
#define GF_TUNE_PLACE_LEAST GF_MIB(16)
/* Shared memory that is unmapped leaves the tables in such pieces, where so many helpers are there. */
#define GF_TUNE_UNMAP_PIECE GF_MIB(8)
#define GF_TUNE_UNMAP_HELPERS 3
/* ...or are freed later, where so many times as much is left; how old that figure may be. */
#define GF_TUNE_ASIDE_TIMES 32
#define GF_TUNE_ASIDE_LOOK_NS UINT64_C(250000000)
/* From which size on staging pays, where nobody says: by direction, and with few threads. */
#define GF_TUNE_MIN_H2D GF_MIB(1)
#define GF_TUNE_MIN_D2H GF_MIB(1)
/*
 * Below this so many copies of any memory are asked nothing about, and so many that could be staged prepare nothing for it:
 * questions and preparing would make the first late by a third each.
 */
#define GF_TUNE_EAGER GF_MIB(4)
#define GF_TUNE_EAGER_PATIENCE 32
#define GF_TUNE_FEW_THREADS 4
#define GF_TUNE_MIN_FEW_H2D GF_MIB(8)
#define GF_TUNE_MIN_FEW_D2H SIZE_MAX
/* After so many trials staging is judged; what it may take for a MiB while the driver was never seen. */
#define GF_TUNE_PACE_TRIALS 8
/* Of so many at the beginning the fastest counts. */
#define GF_TUNE_PACE_FIRST 4
#define GF_TUNE_PACE_UNKNOWN_NS UINT64_C(600000)
/* Copies that are the driver's where it is faster, at first and at most; so many trials end the doubt. */
#define GF_TUNE_PACE_TURN 64u
#define GF_TUNE_PACE_TURN_MOST 4096u
#define GF_TUNE_PACE_SETTLED 64
/* Staged copies at once for each thread of the pool; what comes on top goes to the driver. */
#define GF_TUNE_CALLS_PER_THREAD 8

/* A copy is cut into about so many DMAs, each of a size in these bounds (powers of two)... */
#define GF_TUNE_CHUNKS 8
#define GF_TUNE_CHUNK_LEAST GF_KIB(512)
#define GF_TUNE_CHUNK_MOST GF_MIB(2)
/* ...and a chunk into so many pieces, each of which one thread copies; no smaller than that. */
#define GF_TUNE_PIECES 8
#define GF_TUNE_PIECE_LEAST GF_KIB(64)
/* Pages of files are brought in so far ahead at once... */
#define GF_TUNE_REACH GF_MIB(4)
/* ...or, in copies from here on, by each thread for its own piece, which is what a page table maps. */
#define GF_TUNE_REACH_APART GF_MIB(16)
#define GF_TUNE_REACH_PIECE GF_MIB(2)
/* Chunks of one copy under way at once. */
#define GF_TUNE_SLOTS 16
/* Calls at once share what one alone would have; each has this much. Where there are more than so
 * many, chunks are no larger than that. */
#define GF_TUNE_SHARE_LEAST GF_MIB(4)
#define GF_TUNE_CROWD 4
#define GF_TUNE_CHUNK_CROWD GF_MIB(1)
/* An asynchronous copy up to this size never waits for its stream in the driver (conformance.md). */
#define GF_TUNE_PUT_ASIDE GF_MIB(2)
/* For so long a stream that was just asked may take to say that it is idle. */
#define GF_TUNE_IDLE_NS 5000

/* The first segment of a ring: half of the copy that asks for it, within these bounds. */
#define GF_TUNE_RING_FIRST_LEAST GF_MIB(2)
#define GF_TUNE_RING_FIRST_MOST GF_MIB(16)
/* A first copy of fewer bytes has it made behind it. Of a larger one it is a small part, and the next finds it ready. */
#define GF_TUNE_BEHIND GF_MIB(512)
/* A copy too small to carry the cost of registering is asked for it after so many of its kind. */
#define GF_TUNE_RING_PATIENCE 64
/* A ring that serves idle streams only needs no more than this, while no crowd shares it: what is
 * read from it has then left the caches of who read it when its turn comes again. */
#define GF_TUNE_RING_WINDOW GF_MIB(32)
#define GF_TUNE_RING_LIMIT GF_MIB(1024)
/* Copies of each caller that may stand on a busy stream; who runs further ahead waits, as natively. */
#define GF_TUNE_RING_AHEAD 4
/* A ring may take this part of the memory that is left. */
#define GF_TUNE_RING_SHARE 4
/* After a refusal nobody asks again for so long; unused for so long, a segment may be given up. */
#define GF_TUNE_RING_RETRY_NS (UINT64_C(5) * 1000000000)
#define GF_TUNE_RING_IDLE_NS (UINT64_C(60) * 1000000000)

#endif
