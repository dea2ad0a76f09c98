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
/* Helpers for larger copies, because more helpers are no faster. */
#define GF_TUNE_HELPERS 9
/*
 * Copies to the device of at least this size use CLDEMOTE and all helpers, in pools of at least
 * this many threads. CLDEMOTE makes each thread slower (nt_copy.h).
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
 * With fewer threads than this and 4 KiB pages, the library's allocations would take as long as the
 * driver's.
 */
#define GF_TUNE_PIN_THREADS 4
/* Memory that large pinned allocations leave free, besides an eighth of the headroom. */
#define GF_TUNE_PIN_RESERVE GF_MIB(64)
/* The headroom is read again after each step of this many bytes has been touched. */
#define GF_TUNE_TOUCH_STEP GF_MIB(256)
/*
 * The smallest mapping of a buffer; GF_TUNE_PIN_MAPPING_MANY while the library has more than
 * GF_TUNE_PIN_MAPPINGS live mappings.
 */
#define GF_TUNE_PIN_MAPPING_LEAST GF_MIB(32)
#define GF_TUNE_PIN_MAPPINGS 32
#define GF_TUNE_PIN_MAPPING_MANY GF_MIB(256)
/*
 * At most this many bytes of mappings are kept for small blocks. The headroom is read again after
 * this interval.
 */
#define GF_TUNE_PIN_CACHE GF_MIB(64)
#define GF_TUNE_PIN_READ_NS UINT64_C(1000000000)
/* Absent pages are prefaulted in registrations of at least this size. */
#define GF_TUNE_PREFAULT_LEAST GF_MIB(16)
/*
 * Several threads remove the pages of shared memory from the page tables when the program unmaps
 * it. Only a pool with at least this many helpers does this. A piece has at least this size, and
 * there are at most this many pieces.
 */
#define GF_TUNE_UNMAP_HELPERS 3
#define GF_TUNE_UNMAP_PIECE GF_MIB(8)
#define GF_TUNE_UNMAP_PIECES 32
/*
 * GPUFEED_UNMAP=later applies to a mapping if the headroom is at least this many times its size.
 * The headroom must have been read within this time (in ns).
 */
#define GF_TUNE_UNMAP_LATER_TIMES 32
#define GF_TUNE_UNMAP_LATER_NS UINT64_C(5000000000)
/* The smallest copy for which staging pays, by direction. */
#define GF_TUNE_MIN_H2D GF_MIB(1)
#define GF_TUNE_MIN_D2H GF_MIB(1)
/*
 * While GF_TUNE_SHARERS threads copy at once, staging pays from this size, because the driver
 * serves one of them after the other.
 */
#define GF_TUNE_MIN_SHARED GF_KIB(256)
#define GF_TUNE_SHARERS 3
/* In pools with fewer threads than this, staging pays from these sizes. */
#define GF_TUNE_FEW_THREADS 4
#define GF_TUNE_MIN_FEW_H2D GF_MIB(8)
#define GF_TUNE_MIN_FEW_D2H SIZE_MAX
/*
 * For a process's first GF_TUNE_EARLY_COPIES copies below this size, the driver is not queried. For
 * the first GF_TUNE_EARLY_COPIES copies below this size that could be staged, nothing is prepared.
 * Queries and preparation would each take a third of the time of the first copy.
 */
#define GF_TUNE_EARLY_BYTES GF_MIB(4)
#define GF_TUNE_EARLY_COPIES 32
/* So many staged copies are counted before staging is compared with the driver. */
#define GF_TUNE_RATE_TRIALS 8
/* Of this many first copies, only the fastest counts. */
#define GF_TUNE_RATE_FIRST 4
/*
 * No driver copies pageable memory in less time per MiB than this (17 GB/s). If staging takes
 * longer, it is compared with the driver.
 */
#define GF_TUNE_RATE_CERTAIN_NS UINT64_C(60000)
/*
 * While the driver's duration is not known, short back-offs measure it. Each begins after twice as
 * many staged copies as the one before, up to this many doublings.
 */
#define GF_TUNE_RATE_PROBES_MOST 6u
/* This many copies at the end of a back-off are timed. */
#define GF_TUNE_RATE_MEASURED 16u
/* The number of copies in the first back-off, and in the longest. */
#define GF_TUNE_RATE_BACKOFF 64u
#define GF_TUNE_RATE_BACKOFF_MOST 4096u
/*
 * After this many staged copies, the next back-off has its first length again. But if the mean
 * exceeded the driver's by more than one part in GF_TUNE_RATE_SETTLED_PART at each of the last
 * GF_TUNE_RATE_SETTLED_ROW copies, a back-off begins.
 */
#define GF_TUNE_RATE_SETTLED 64
#define GF_TUNE_RATE_SETTLED_PART 16
#define GF_TUNE_RATE_SETTLED_ROW 16
/*
 * A context may have this many staged copies at once for each thread of its pool; the driver makes
 * further ones.
 */
#define GF_TUNE_CALLS_PER_THREAD 8

/* The approximate number of chunks (DMAs) of a copy, and the bounds of a chunk: powers of two. */
#define GF_TUNE_CHUNKS 8
#define GF_TUNE_CHUNK_LEAST GF_KIB(512)
#define GF_TUNE_CHUNK_MOST GF_MIB(2)
/*
 * A chunk is divided into this many pieces, each copied by one thread. The second value is the
 * smallest piece.
 */
#define GF_TUNE_PIECES 8
#define GF_TUNE_PIECE_LEAST GF_KIB(64)
/*
 * Copies of at least this size into absent pages have pieces of the size of a huge page. Whether
 * pages are absent is sampled at this many places.
 */
#define GF_TUNE_UNITS_LEAST GF_MIB(4)
#define GF_TUNE_UNITS_SAMPLES 4
/* Pages of a file are populated in steps of this many bytes. */
#define GF_TUNE_POPULATE_STEP GF_MIB(4)
/*
 * In copies of at least this size, each thread populates its own piece instead. A piece is the
 * memory that one page table maps.
 */
#define GF_TUNE_POPULATE_APART GF_MIB(16)
#define GF_TUNE_POPULATE_PIECE GF_MIB(2)
/*
 * Copies by memcpy into pinned memory are shared from this size on, in pieces of this size. Newly
 * loaded libraries are looked for at most once in this interval.
 */
#define GF_TUNE_MEMCPY_LEAST GF_MIB(4)
#define GF_TUNE_MEMCPY_PIECE GF_MIB(1)
#define GF_TUNE_MEMCPY_LOOK_NS UINT64_C(100000000)
/*
 * Read-ahead in mapped files. One call of madvise covers a step, because the kernel shortens a
 * longer call to its own read-ahead, 128 KiB by default. A helper does one piece at a time.
 */
#define GF_TUNE_READAHEAD_STEP GF_KIB(128)
#define GF_TUNE_READAHEAD_PIECE GF_MIB(2)
#define GF_TUNE_READAHEAD_HELPERS 2
/*
 * A call of madvise for cached pages takes less than this. After such a call, at most this many
 * bytes are skipped.
 */
#define GF_TUNE_READAHEAD_CACHED_NS 8000
#define GF_TUNE_READAHEAD_SKIP GF_MIB(16)
/*
 * Helpers read at most this far ahead of the copy. They are given at least this many pieces at a
 * time.
 */
#define GF_TUNE_READAHEAD_LEAD GF_MIB(128)
#define GF_TUNE_READAHEAD_RAISE 4
/*
 * How many bytes of a file may be read ahead and not copied yet: the larger of this, and of the
 * bytes that copies have read divided by GF_TUNE_READAHEAD_UNREAD_PART.
 */
#define GF_TUNE_READAHEAD_UNREAD GF_MIB(64)
#define GF_TUNE_READAHEAD_UNREAD_PART 20
/*
 * After a copy whose pages were cached, nothing is read ahead in the file for this many bytes of
 * copies: at first, and at most.
 */
#define GF_TUNE_READAHEAD_QUIET GF_MIB(8)
#define GF_TUNE_READAHEAD_QUIET_MOST GF_MIB(64)
/* A copy continues an earlier one if it begins this near to the other's end. */
#define GF_TUNE_READAHEAD_GAP GF_MIB(1)
/* An answer about a file system is used for this long. */
#define GF_TUNE_READAHEAD_KNOWN_NS (UINT64_C(10) * 1000000000)
/*
 * For so many of a thread's next copies of the same memory, the kernel is not queried: if the
 * memory belongs to no file, and if nothing is read ahead in the file.
 */
#define GF_TUNE_READAHEAD_OTHERS 64
#define GF_TUNE_READAHEAD_CACHED 8
/*
 * A copy's range may consist of GF_TUNE_MAPPINGS mappings, plus one for each GF_TUNE_MAPPING_LEAST
 * bytes. Beyond that, the driver copies the rest.
 */
#define GF_TUNE_MAPPINGS 16
#define GF_TUNE_MAPPING_LEAST GF_KIB(128)
/* At most this many chunks of one copy are under way at once. */
#define GF_TUNE_SLOTS 16
/* Concurrent callers share the ring window, and each gets at least this many bytes. */
#define GF_TUNE_SHARE_LEAST GF_MIB(4)
/* With more callers than GF_TUNE_CROWD, a chunk has at most this size. */
#define GF_TUNE_CROWD 4
#define GF_TUNE_CHUNK_CROWD GF_MIB(1)
/*
 * An asynchronous copy of the driver up to this size never waits for its stream
 * (tests/conformance).
 */
#define GF_TUNE_ASYNC_NOWAIT GF_MIB(2)
/* The time within which an event on an idle stream completes. */
#define GF_TUNE_IDLE_NS 5000

/*
 * For each of its MiB, a copy waits at most this long for other copies to release memory of the
 * ring: a quarter of GF_TUNE_RATE_CERTAIN_NS. It checks at this interval. After a wait in vain,
 * this many copies do not wait.
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
 * bytes of a slot have left the caches of the threads that read them before the slot is used again.
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
/*
 * While memory is short, this replaces GF_TUNE_RING_IDLE_NS. After a look for unused segments, the
 * next look comes after at least GF_TUNE_RING_LOOK_NS.
 */
#define GF_TUNE_RING_SHORT_NS UINT64_C(1000000000)
#define GF_TUNE_RING_LOOK_NS UINT64_C(10000000)

#endif
