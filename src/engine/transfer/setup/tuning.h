/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants that were chosen by measurements. Sizes are in bytes, durations in nanoseconds. The
 * measurements are in bench/NOTES.md.
 */
#ifndef GF_ENGINE_TRANSFER_SETUP_TUNING_H
#define GF_ENGINE_TRANSFER_SETUP_TUNING_H

#define GF_KIB(n) ((size_t)(n) << 10)
#define GF_MIB(n) ((size_t)(n) << 20)

/*
 * Threads that copy at once on one node, the caller included, unless GPUFEED_STAGE_THREADS is
 * set.
 */
#define GF_TUNE_THREADS 12
/* Helpers for copies below GF_TUNE_SMALL, which end before more helpers are awake. */
#define GF_TUNE_HELPERS_SMALL 7
#define GF_TUNE_SMALL GF_MIB(32)
/* Helpers for larger copies: more are no faster... */
#define GF_TUNE_HELPERS 9
/*
 * ...except with CLDEMOTE: in copies to the device of at least this size, in pools of at least this
 * many threads. Each thread is slower with CLDEMOTE (nt_copy.h).
 */
#define GF_TUNE_CLDEMOTE_BYTES GF_MIB(16)
#define GF_TUNE_CLDEMOTE_THREADS 12
/*
 * How long a helper spins for work before it sleeps: while a job is open, and while no job is open.
 */
#define GF_TUNE_HELPER_SPIN_NS 100000
#define GF_TUNE_IDLE_SPIN_NS 30000
/* How long a caller spins for its helpers' last pieces before it sleeps. */
#define GF_TUNE_CALLER_SPIN_NS 50000

/*
 * Pinned allocations of at least this size are mapped by the library: with 4 KiB pages, and with
 * huge pages.
 */
#define GF_TUNE_PIN_LARGE GF_MIB(32)
#define GF_TUNE_PIN_LARGE_HUGE GF_MIB(16)
/*
 * With fewer threads and 4 KiB pages, the library's allocations would take as long as the driver's.
 */
#define GF_TUNE_PIN_THREADS 4
/* Memory that large pinned allocations leave free, besides an eighth of the headroom. */
#define GF_TUNE_PIN_RESERVE GF_MIB(64)
/* The headroom is read again after each step of this many bytes has been touched. */
#define GF_TUNE_TOUCH_STEP GF_MIB(256)
/*
 * The smallest mapping of a buffer: the first value up to GF_TUNE_PIN_MAPPINGS live mappings of the
 * library, the last value beyond.
 */
#define GF_TUNE_PIN_MAPPING_LEAST GF_MIB(32)
#define GF_TUNE_PIN_MAPPINGS 32
#define GF_TUNE_PIN_MAPPING_MANY GF_MIB(256)
/* The kept mappings of small blocks, in bytes, and the interval at which the headroom is read. */
#define GF_TUNE_PIN_CACHE GF_MIB(64)
#define GF_TUNE_PIN_READ_NS UINT64_C(1000000000)
/* Absent pages are prefaulted in registrations of at least this size. */
#define GF_TUNE_PREFAULT_LEAST GF_MIB(16)
/*
 * When the program unmaps shared memory, several threads remove its pages from the page tables. They
 * do so if at least this many helpers run, in pieces of at least this size, at most this many.
 */
#define GF_TUNE_UNMAP_HELPERS 3
#define GF_TUNE_UNMAP_PIECE GF_MIB(8)
#define GF_TUNE_UNMAP_PIECES 32
/*
 * GPUFEED_UNMAP=later is used for a mapping if this many times its size is left. The figure may be
 * at most this old (in ns).
 */
#define GF_TUNE_UNMAP_LATER_TIMES 32
#define GF_TUNE_UNMAP_LATER_NS UINT64_C(5000000000)
/*
 * The size from which staging pays: by direction, and with fewer threads than
 * GF_TUNE_FEW_THREADS.
 */
#define GF_TUNE_MIN_H2D GF_MIB(1)
#define GF_TUNE_MIN_D2H GF_MIB(1)
/*
 * While so many threads copy at once, staging pays from a smaller size: the driver copies for one
 * of them after the other.
 */
#define GF_TUNE_MIN_SHARED GF_KIB(256)
#define GF_TUNE_SHARERS 3
#define GF_TUNE_FEW_THREADS 4
#define GF_TUNE_MIN_FEW_H2D GF_MIB(8)
#define GF_TUNE_MIN_FEW_D2H SIZE_MAX
/*
 * Special treatment of a process's first copies below this size. For the first GF_TUNE_EARLY_COPIES
 * of them no query is made. The first GF_TUNE_EARLY_COPIES that could be staged prepare nothing.
 * The queries and the preparation would each take a third of the time of the first copy.
 */
#define GF_TUNE_EARLY_BYTES GF_MIB(4)
#define GF_TUNE_EARLY_COPIES 32
/* Staged copies before staging is compared with the driver. */
#define GF_TUNE_RATE_TRIALS 8
/* Of this many first copies, only the fastest counts. */
#define GF_TUNE_RATE_FIRST 4
/*
 * Time per MiB that no driver's pageable copy undercuts (17 GB/s). Slower staging is compared.
 */
#define GF_TUNE_RATE_CERTAIN_NS UINT64_C(60000)
/* Short back-offs that show the driver's duration; each needs twice the staged copies before it. */
#define GF_TUNE_RATE_PROBES_MOST 6u
/* Of a back-off, the last copies are measured. */
#define GF_TUNE_RATE_MEASURED 16u
/* Copies left to the driver where it is faster: at first, and at most. */
#define GF_TUNE_RATE_BACKOFF 64u
#define GF_TUNE_RATE_BACKOFF_MOST 4096u
/*
 * Staged copies after which the back-off returns to its first length, unless the mean of the last
 * GF_TUNE_RATE_SETTLED_ROW of them was above the driver's by this part.
 */
#define GF_TUNE_RATE_SETTLED 64
#define GF_TUNE_RATE_SETTLED_PART 16
#define GF_TUNE_RATE_SETTLED_ROW 16
/* Staged copies at once for each thread of the pool; further ones are left to the driver. */
#define GF_TUNE_CALLS_PER_THREAD 8

/* The approximate number of chunks (DMAs) of a copy, and the bounds of a chunk: powers of two. */
#define GF_TUNE_CHUNKS 8
#define GF_TUNE_CHUNK_LEAST GF_KIB(512)
#define GF_TUNE_CHUNK_MOST GF_MIB(2)
/* Pieces of a chunk, each copied by one thread, and the smallest piece. */
#define GF_TUNE_PIECES 8
#define GF_TUNE_PIECE_LEAST GF_KIB(64)
/*
 * Copies of at least this size into absent pages have pieces of a huge page. Whether pages are
 * absent is sampled at this many places.
 */
#define GF_TUNE_UNITS_LEAST GF_MIB(4)
#define GF_TUNE_UNITS_SAMPLES 4
/* Pages of files are populated this many bytes ahead at once... */
#define GF_TUNE_POPULATE_STEP GF_MIB(4)
/*
 * ...or, in copies of at least this size, by each thread for its own piece: the memory that one
 * page table maps.
 */
#define GF_TUNE_POPULATE_APART GF_MIB(16)
#define GF_TUNE_POPULATE_PIECE GF_MIB(2)
/*
 * A copy's range may consist of this many mappings, plus one for each unit of the second size (in
 * bytes). Beyond that, the driver copies the rest.
 */
#define GF_TUNE_MAPPINGS 16
#define GF_TUNE_MAPPING_LEAST GF_KIB(128)
/* Chunks of one copy under way at once. */
#define GF_TUNE_SLOTS 16
/* Concurrent callers share the ring window, and each gets at least this. */
#define GF_TUNE_SHARE_LEAST GF_MIB(4)
/* With more callers than GF_TUNE_CROWD, a chunk has at most this size. */
#define GF_TUNE_CROWD 4
#define GF_TUNE_CHUNK_CROWD GF_MIB(1)
/* Up to this size the driver's asynchronous copy never waits for its stream (tests/conformance). */
#define GF_TUNE_ASYNC_NOWAIT GF_MIB(2)
/* The time within which an event on an idle stream completes. */
#define GF_TUNE_IDLE_NS 5000

/*
 * A copy waits so long, for each MiB, for memory that other copies hold: a quarter of
 * GF_TUNE_RATE_CERTAIN_NS. It looks each moment. After one that waited in vain, so many do not wait.
 */
#define GF_TUNE_RING_PATIENCE_NS UINT64_C(15000)
#define GF_TUNE_RING_MOMENT_NS 10000
#define GF_TUNE_RING_IMPATIENT 16u

/* The first segment of a ring: half of the copy that requests it, within these bounds. */
#define GF_TUNE_RING_FIRST_LEAST GF_MIB(2)
#define GF_TUNE_RING_FIRST_MOST GF_MIB(16)
/*
 * If a copy below this size finds nothing prepared, the preparation begins after the driver's call.
 * For a larger copy the preparation takes a small part of the time, so it begins at once.
 */
#define GF_TUNE_PREPARE_NOW GF_MIB(512)
/*
 * After this many copies that were too small to justify the cost of a registration, the next copy
 * registers.
 */
#define GF_TUNE_RING_PASSED 64
/*
 * The size of a ring for idle streams with up to GF_TUNE_CROWD callers. In a ring of this size, the
 * bytes of a slot have left the readers' caches when the slot is used again.
 */
#define GF_TUNE_RING_WINDOW GF_MIB(32)
#define GF_TUNE_RING_LIMIT GF_MIB(1024)
/*
 * Copies of each caller that may be queued on a busy stream. A caller with more copies waits, as it
 * does without the library.
 */
#define GF_TUNE_RING_AHEAD 4
/* A ring may grow by the headroom divided by this. */
#define GF_TUNE_RING_SHARE 4
/*
 * How long no growth is requested after a refusal, and how long a segment is unused before it may
 * be removed.
 */
#define GF_TUNE_RING_RETRY_NS (UINT64_C(5) * 1000000000)
#define GF_TUNE_RING_IDLE_NS (UINT64_C(60) * 1000000000)
/* GF_TUNE_RING_IDLE_NS while memory is short, and the time between looks for such segments. */
#define GF_TUNE_RING_SHORT_NS UINT64_C(1000000000)
#define GF_TUNE_RING_LOOK_NS UINT64_C(10000000)

#endif
