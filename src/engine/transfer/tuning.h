/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants of src/engine/transfer that were chosen by measurements. Sizes are in bytes,
 * durations in nanoseconds. The measurements are in bench/NOTES.md.
 */
#pragma once

#define GF_KIB(n) ((size_t)(n) << 10)
#define GF_MIB(n) ((size_t)(n) << 20)

/*
 * The most threads that copy at once on one node, including the caller, unless
 * GPUFEED_STAGE_THREADS is set.
 */
#define GF_TUNE_THREADS 12
/*
 * The most helpers for a copy of less than GF_TUNE_SMALL bytes. Such a copy ends before more
 * helpers would be awake.
 */
#define GF_TUNE_HELPERS_SMALL 7
#define GF_TUNE_SMALL GF_MIB(32)
/* The most helpers for larger copies, because more helpers would not make the copy faster. */
#define GF_TUNE_HELPERS 9
/*
 * In pools of at least GF_TUNE_CLDEMOTE_THREADS threads, copies to the device use CLDEMOTE and all
 * helpers if they have at least GF_TUNE_CLDEMOTE_BYTES. CLDEMOTE makes each thread slower
 * (host_copy.h).
 */
#define GF_TUNE_CLDEMOTE_BYTES GF_MIB(16)
#define GF_TUNE_CLDEMOTE_THREADS 12
/*
 * How long a helper spins for work before it sleeps. The first value applies while a job is open,
 * the second while no job is open.
 */
#define GF_TUNE_HELPER_SPIN_NS 100000
#define GF_TUNE_IDLE_SPIN_NS 30000
/* How long a caller spins for its helpers' last pieces before it sleeps. */
#define GF_TUNE_CALLER_SPIN_NS 50000

/*
 * The library maps pinned allocations of at least this size. The first value is for 4 KiB pages,
 * the second for huge pages.
 */
#define GF_TUNE_PIN_LARGE GF_MIB(32)
#define GF_TUNE_PIN_LARGE_HUGE GF_MIB(16)
/*
 * With fewer threads than this and 4 KiB pages, large pinned allocations would take as long in the
 * library as in the driver.
 */
#define GF_TUNE_PIN_THREADS 4
/* Large pinned allocations leave this many bytes free, in addition to an eighth of the headroom. */
#define GF_TUNE_PIN_RESERVE GF_MIB(64)
/*
 * While a pinned buffer is touched, the headroom is read again after each step of this many bytes.
 */
#define GF_TUNE_TOUCH_STEP GF_MIB(256)
/* Threads touch a range in units of at most this size, so that they end at about the same time. */
#define GF_TUNE_TOUCH_UNIT GF_MIB(32)
/*
 * A mapping for pinned buffers has at least GF_TUNE_PIN_MAPPING_LEAST bytes. While the library has
 * more than GF_TUNE_PIN_MAPPINGS live mappings, it has at least GF_TUNE_PIN_MAPPING_MANY bytes.
 */
#define GF_TUNE_PIN_MAPPING_LEAST GF_MIB(32)
#define GF_TUNE_PIN_MAPPINGS 32
#define GF_TUNE_PIN_MAPPING_MANY GF_MIB(256)
/*
 * Keepalives keep at most GF_TUNE_PIN_CACHE bytes of mappings for small blocks. The headroom on
 * which this depends is read again after GF_TUNE_PIN_READ_NS.
 */
#define GF_TUNE_PIN_CACHE GF_MIB(64)
#define GF_TUNE_PIN_READ_NS UINT64_C(1000000000)
/*
 * Mappings of freed buffers above the first size, and at most of the second, are kept for reuse,
 * within GF_TUNE_PIN_CACHE. One that was not reused for this time is unmapped within the next call.
 */
#define GF_TUNE_PIN_KEPT_ABOVE (GF_MIB(2) - GF_KIB(4))
#define GF_TUNE_PIN_KEPT_MOST GF_MIB(32)
#define GF_TUNE_PIN_KEPT_NS (UINT64_C(60) * 1000000000)
/* The unit in which several threads zero a mapping for reuse. */
#define GF_TUNE_ZERO_PIECE GF_KIB(512)
/* Before the program registers memory of at least this size, the library prefaults absent pages. */
#define GF_TUNE_PREFAULT_LEAST GF_MIB(16)
/*
 * When the program unmaps shared memory, several threads remove its pages from the page tables.
 * Only a pool with at least GF_TUNE_UNMAP_HELPERS helpers does this. The memory is divided into at
 * most GF_TUNE_UNMAP_PIECES pieces of at least GF_TUNE_UNMAP_PIECE bytes.
 */
#define GF_TUNE_UNMAP_HELPERS 3
#define GF_TUNE_UNMAP_PIECE GF_MIB(8)
#define GF_TUNE_UNMAP_PIECES 32
/* If most of so many pages are absent, munmap is faster without helpers. */
#define GF_TUNE_UNMAP_SAMPLES 4
/*
 * GPUFEED_UNMAP=later applies to a mapping if the headroom is at least GF_TUNE_UNMAP_LATER_TIMES
 * times as large as the mapping. The headroom must have been read at most GF_TUNE_UNMAP_LATER_NS
 * ago.
 */
#define GF_TUNE_UNMAP_LATER_TIMES 32
#define GF_TUNE_UNMAP_LATER_NS UINT64_C(5000000000)
/* The smallest copy for which staging pays, by direction. */
#define GF_TUNE_MIN_H2D GF_MIB(1)
#define GF_TUNE_MIN_D2H GF_MIB(1)
/*
 * While at least GF_TUNE_SHARERS threads copy at once, staging pays from GF_TUNE_MIN_SHARED bytes,
 * because the driver serves only one of these threads at a time.
 */
#define GF_TUNE_MIN_SHARED GF_KIB(256)
#define GF_TUNE_SHARERS 3
/*
 * In pools with fewer than GF_TUNE_FEW_THREADS threads, staging pays only from these larger sizes;
 * SIZE_MAX: never.
 */
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
/* The number of staged copies before their mean duration is compared with the driver's. */
#define GF_TUNE_RATE_TRIALS 8
/* Among the first copies, up to this number, only the fastest counts. */
#define GF_TUNE_RATE_FIRST 4
/*
 * No driver copies pageable memory in less time per MiB than this (17 GB/s). Staging is compared
 * with the driver only if it takes longer.
 */
#define GF_TUNE_RATE_CERTAIN_NS UINT64_C(60000)
/*
 * While the driver's duration is not known, short back-offs measure it. Each of them begins after
 * twice as many staged copies as the previous one, with at most this many doublings.
 */
#define GF_TUNE_RATE_PROBES_MOST 6u
/* This many copies at the end of a back-off are timed. */
#define GF_TUNE_RATE_MEASURED 16u
/* The number of copies in the first back-off, and in the longest one. */
#define GF_TUNE_RATE_BACKOFF 64u
#define GF_TUNE_RATE_BACKOFF_MOST 4096u
/*
 * If GF_TUNE_RATE_SETTLED staged copies needed no back-off, the next back-off has the first length
 * again. From that number of copies on, a back-off begins if the mean of staging exceeded the
 * driver's by more than 1/GF_TUNE_RATE_SETTLED_PART after each of the last GF_TUNE_RATE_SETTLED_ROW
 * copies.
 */
#define GF_TUNE_RATE_SETTLED 64
#define GF_TUNE_RATE_SETTLED_PART 16
#define GF_TUNE_RATE_SETTLED_ROW 16
/*
 * A context may have this many staged copies at once for each thread of its pool. Further copies
 * are left to the driver.
 */
#define GF_TUNE_CALLS_PER_THREAD 8

/*
 * The approximate number of chunks (DMAs) of a copy, and the smallest and the largest size of a
 * chunk, which are powers of two.
 */
#define GF_TUNE_CHUNKS 8
#define GF_TUNE_CHUNK_LEAST GF_KIB(512)
#define GF_TUNE_CHUNK_MOST GF_MIB(2)
/*
 * A chunk is divided into GF_TUNE_PIECES pieces, each of which one thread copies. A piece has at
 * least GF_TUNE_PIECE_LEAST bytes.
 */
#define GF_TUNE_PIECES 8
#define GF_TUNE_PIECE_LEAST GF_KIB(64)
/*
 * Copies of at least GF_TUNE_UNITS_LEAST bytes into absent pages have pieces of the size of a huge
 * page. GF_TUNE_UNITS_SAMPLES pages are checked to find whether the pages are absent.
 */
#define GF_TUNE_UNITS_LEAST GF_MIB(4)
#define GF_TUNE_UNITS_SAMPLES 4
/* Pages of a file are populated in steps of this many bytes. */
#define GF_TUNE_POPULATE_STEP GF_MIB(4)
/*
 * In copies from a file of at least GF_TUNE_POPULATE_APART bytes, each thread instead populates the
 * piece that it copies. Such a piece is as large as the memory that one page table maps.
 */
#define GF_TUNE_POPULATE_APART GF_MIB(16)
#define GF_TUNE_POPULATE_PIECE GF_MIB(2)
/*
 * Helpers share a call of memcpy into pinned memory (replaced_calls.h), or a read of a file
 * (replaced_calls.h), of at least GF_TUNE_IMPORT_LEAST bytes. A piece has GF_TUNE_IMPORT_PIECE bytes.
 * A request for a search for newly loaded libraries is sent at most once in
 * GF_TUNE_IMPORT_REQUEST_NS. Without a request, they are searched for at most once in
 * GF_TUNE_IMPORT_LOOK_NS.
 */
#define GF_TUNE_IMPORT_LEAST GF_MIB(4)
#define GF_TUNE_IMPORT_PIECE GF_MIB(1)
#define GF_TUNE_IMPORT_REQUEST_NS UINT64_C(100000000)
#define GF_TUNE_IMPORT_LOOK_NS UINT64_C(1000000000)
/*
 * A DataLoader's batch is pinned (pin_batch.h) in GF_TUNE_PIN_PIECES pieces by GF_TUNE_PIN_HELPERS
 * helpers and the calling thread. Each munmap of GF_TUNE_PIN_LEAST bytes permits GF_TUNE_PIN_REGIONS
 * more regions, and at most GF_TUNE_PIN_REGIONS_MOST are permitted, so that small batches are not
 * shared: with batches of 38 MB, a loop was slower by 8 %.
 */
#define GF_TUNE_PIN_LEAST GF_MIB(64)
#define GF_TUNE_PIN_HELPERS 3
#define GF_TUNE_PIN_PIECES 64
#define GF_TUNE_PIN_REGIONS 16u
#define GF_TUNE_PIN_REGIONS_MOST 1024u
/* A fork waits at most this long for the end of a search. */
#define GF_TUNE_IMPORT_FORK_NS UINT64_C(200000000)
/*
 * The most helpers that read a file for one call. All calls together leave GF_TUNE_READ_SPARED
 * helpers to copies, or half of them if there are few.
 */
#define GF_TUNE_READ_HELPERS 8
#define GF_TUNE_READ_SPARED 3
/* If no helper takes the file in this time, all are busy, and the read is not shared. */
#define GF_TUNE_READ_PATIENCE_NS UINT64_C(5000000)
/*
 * Read-ahead in mapped files. One call of madvise covers a step, because a longer call reads no
 * more than the kernel's own read-ahead size, 128 KiB by default. A helper does one piece at a
 * time, with a call for each step.
 */
#define GF_TUNE_READAHEAD_STEP GF_KIB(128)
#define GF_TUNE_READAHEAD_PIECE GF_MIB(2)
#define GF_TUNE_READAHEAD_HELPERS 2
/*
 * A call of madvise for cached pages takes less than GF_TUNE_READAHEAD_CACHED_NS. After such a
 * call, at most GF_TUNE_READAHEAD_SKIP bytes are skipped.
 */
#define GF_TUNE_READAHEAD_CACHED_NS 8000
#define GF_TUNE_READAHEAD_SKIP GF_MIB(16)
/*
 * Helpers read at most GF_TUNE_READAHEAD_LEAD bytes ahead of the copy. While the copy advances, at
 * least GF_TUNE_READAHEAD_RAISE more pieces are allowed at a time.
 */
#define GF_TUNE_READAHEAD_LEAD GF_MIB(128)
#define GF_TUNE_READAHEAD_RAISE 4
/*
 * How many bytes of a file may be read ahead but not copied yet: GF_TUNE_READAHEAD_UNREAD, or
 * 1/GF_TUNE_READAHEAD_UNREAD_PART of the bytes that copies have read, whichever is larger.
 */
#define GF_TUNE_READAHEAD_UNREAD GF_MIB(64)
#define GF_TUNE_READAHEAD_UNREAD_PART 20
/*
 * After a copy whose pages were cached, nothing is read ahead in the file until copies have read
 * this many further bytes. The first value is used first and then doubled, up to the second value.
 */
#define GF_TUNE_READAHEAD_QUIET GF_MIB(8)
#define GF_TUNE_READAHEAD_QUIET_MOST GF_MIB(64)
/*
 * A copy continues an earlier copy if it begins within this many bytes of the earlier copy's end.
 */
#define GF_TUNE_READAHEAD_GAP GF_MIB(1)
/* For this long, the library uses its answer whether a file system allows read-ahead. */
#define GF_TUNE_READAHEAD_KNOWN_NS (UINT64_C(10) * 1000000000)
/*
 * For this many of a thread's next copies of the same memory, the kernel is not queried. The first
 * value is for memory that belongs to no file, the second for a file in which nothing is read
 * ahead.
 */
#define GF_TUNE_READAHEAD_OTHERS 64
#define GF_TUNE_READAHEAD_CACHED 8
/*
 * The range of a staged copy may consist of GF_TUNE_MAPPINGS mappings, plus one for each
 * GF_TUNE_MAPPING_LEAST bytes. If it has more mappings, the driver copies the bytes that were not
 * staged yet.
 */
#define GF_TUNE_MAPPINGS 16
#define GF_TUNE_MAPPING_LEAST GF_KIB(128)
/* At most this many chunks of one copy are under way at once. */
#define GF_TUNE_SLOTS 16
/*
 * Concurrent callers share GF_TUNE_RING_WINDOW bytes of the ring, and each caller may use at least
 * this many bytes.
 */
#define GF_TUNE_SHARE_LEAST GF_MIB(4)
/*
 * If more than GF_TUNE_CROWD callers copy in a context, a chunk has at most GF_TUNE_CHUNK_CROWD
 * bytes.
 */
#define GF_TUNE_CROWD 4
#define GF_TUNE_CHUNK_CROWD GF_MIB(1)
/*
 * An asynchronous copy of the driver up to this size never waits for its stream
 * (tests/conformance).
 */
#define GF_TUNE_ASYNC_NOWAIT GF_MIB(2)
/*
 * An event on an idle stream completes within GF_TUNE_IDLE_NS. If other threads submitted work
 * meanwhile, a copy that had to wait for the stream polls a second event for GF_TUNE_IDLE_AGAIN_NS.
 */
#define GF_TUNE_IDLE_NS 5000
#define GF_TUNE_IDLE_AGAIN_NS 50000
/*
 * A copy of several DMAs holds its stream (hold.h). A call of another thread waits while the copy
 * makes progress, but at most GF_TUNE_HOLD_NS without progress, GF_TUNE_HOLD_DMA_NS while it waits
 * for a DMA, and GF_TUNE_HOLD_MOST_NS while it issues a DMA, reads a file or is runnable. For
 * GF_TUNE_SHARED_NS after such a call, copies on the stream are not cut.
 */
#define GF_TUNE_HOLD_NS UINT64_C(50000000)
#define GF_TUNE_HOLD_DMA_NS UINT64_C(250000000)
#define GF_TUNE_HOLD_MOST_NS UINT64_C(1000000000)
#define GF_TUNE_SHARED_NS (UINT64_C(10) * 1000000000)
/*
 * A copy waits at most GF_TUNE_RING_PATIENCE_NS for each of its MiB until other copies release
 * memory of the ring. This is a quarter of GF_TUNE_RATE_CERTAIN_NS. The copy checks each
 * GF_TUNE_RING_MOMENT_NS. After a copy that waited in vain, GF_TUNE_RING_IMPATIENT copies do not
 * wait.
 */
#define GF_TUNE_RING_PATIENCE_NS UINT64_C(15000)
#define GF_TUNE_RING_MOMENT_NS 10000
#define GF_TUNE_RING_IMPATIENT 16u
/*
 * A copy of at least GF_TUNE_PREPARE_NOW bytes waits for the first segment, for each of its MiB at
 * most GF_TUNE_RING_FIRST_PATIENCE_NS, which is less than half the time of the driver's copy, and
 * altogether at most GF_TUNE_RING_FIRST_MOST_NS, because preparing takes a few milliseconds for any
 * size. If the library's thread has not begun in a quarter of this time, it is busy, and the copy
 * does not wait longer.
 */
#define GF_TUNE_RING_FIRST_PATIENCE_NS GF_TUNE_RATE_CERTAIN_NS
#define GF_TUNE_RING_FIRST_MOST_NS UINT64_C(50000000)

/*
 * The first segment of a ring is half as large as the copy that requests it, within these bounds.
 */
#define GF_TUNE_RING_FIRST_LEAST GF_MIB(2)
#define GF_TUNE_RING_FIRST_MOST GF_MIB(16)
/*
 * If a copy below this size finds no helpers or no ring, their preparation begins after the
 * driver's call. For a larger copy, preparation takes a small part of the copy's time, so it begins
 * at once, and the copy waits for it.
 */
#define GF_TUNE_PREPARE_NOW GF_MIB(64)
/*
 * After this many copies that were too small to justify the cost of registering a segment, the next
 * copy registers it.
 */
#define GF_TUNE_RING_PASSED 64
/*
 * While at most GF_TUNE_CROWD callers copy, copies on idle streams use GF_TUNE_RING_WINDOW bytes of
 * a ring. With this size, the bytes of a slot have left the caches of the threads that last used
 * them before the slot is used again. GF_TUNE_RING_LIMIT is the most bytes of a ring, unless an
 * option sets this limit.
 */
#define GF_TUNE_RING_WINDOW GF_MIB(32)
#define GF_TUNE_RING_LIMIT GF_MIB(1024)
/*
 * The number of copies of each caller that may be queued on a busy stream. With more copies the
 * caller waits, as it does without the library.
 */
#define GF_TUNE_RING_AHEAD 4
/* A ring may grow by at most the headroom divided by this number. */
#define GF_TUNE_RING_SHARE 4
/*
 * After a refused growth, no growth is requested for GF_TUNE_RING_RETRY_NS. A segment may be
 * removed if it was unused for GF_TUNE_RING_IDLE_NS.
 */
#define GF_TUNE_RING_RETRY_NS (UINT64_C(5) * 1000000000)
#define GF_TUNE_RING_IDLE_NS (UINT64_C(60) * 1000000000)
/*
 * While memory is short, GF_TUNE_RING_SHORT_NS replaces GF_TUNE_RING_IDLE_NS. Between two searches
 * for unused segments there are at least GF_TUNE_RING_LOOK_NS.
 */
#define GF_TUNE_RING_SHORT_NS UINT64_C(1000000000)
#define GF_TUNE_RING_LOOK_NS UINT64_C(10000000)
