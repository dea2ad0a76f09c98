/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine does for the process, each duty in a file of its own. */
#pragma once

#include "abi/heap_api.h"
#include "abi/transfer_api.h"
#include "engine/report/report_data.h"
#include "engine/report/transfer_sums.h"

/* decide.c: serves requests for a decision. */

/* Prints the lines of GPUFEED_DEBUG=heap. May be called on any thread. */
void gf_explain_heap(const struct gf_heap_ops *heap);

/* The bits of requests. */
enum {
    gf_request_decide = 1, /* the choice of devices may have changed */
    /*
     * The time limit of a provisional choice is over: settle it now, with GF_CHOICE_LITTLE as the
     * limit.
     */
    gf_request_settle = 2,
    gf_request_rescan = 4, /* bind the threads that have restored the start mask */
    gf_request_socket = 8, /* the starvation guard's first step: widen the mask to the socket */
    gf_request_start = 16, /* the guard's second step: restore the start mask */
};

/*
 * Serves the requests. If another thread is already serving, leaves the requests to that thread, so
 * no hook waits. May be called on any thread. Keeps errno.
 */
void gf_requests_serve(unsigned bits);

/*
 * intervals.c: logs what happened in each interval: threads with large delays outside of hooked
 * calls (run-queue delay, throttling, first touches of pages), and the activity of GPUs and copies.
 */

/* Begins the first interval. Called by gf_engine_start. */
void gf_intervals_start(void);

/*
 * Logs the interval since the last line of each kind if it is long enough. Called on the library's
 * thread.
 */
void gf_intervals_log(void);

/* Logs the activity since the last line. Called on the exiting thread. */
void gf_intervals_end(void);

/*
 * Decides whether this process samples its GPU time, and prepares the sampler. Called by
 * gf_engine_start, so that work is recorded from the first submission on.
 */
void gf_gpu_time_prepare(void);
/* Starts the sampler if work was submitted. Called on the library's thread. */
void gf_gpu_time_start(void);

/* output.c: samples, report and live report. */

/*
 * Reads which masks threads have and on which nodes pages are, and adds this sample to the report.
 * The caller holds the report lock.
 */
void gf_output_sample(bool final);

/*
 * If a point of the report's growth is due, reads the program's memory and its steps. Only for the
 * summary (GPUFEED_VERBOSE=1). Returns when the next point is due, as gf_now_ns. Called on the
 * library's thread, which does not hold the report lock.
 */
uint64_t gf_output_growth(void);

/*
 * Updates the report and writes its file. ended: true at a normal exit. The caller holds the report
 * lock.
 */
void gf_output_report(bool ended);

/* Updates the report and writes the file of GPUFEED_METRICS. The caller holds the report lock. */
void gf_output_metrics(void);

/*
 * Called between two samples. If the program has used the GPU since the file of the report was last
 * written, writes it again: every 5 s, or every 60 s on a network file system. now: gf_now_ns().
 * Called on the library's thread, which does not hold the report lock.
 */
void gf_output_renew(uint64_t now);

/*
 * Implements gf_engine.report (abi/engine_api.h): writes the current report into buf, in the form
 * of the file. May be called on any thread that does not hold the report lock.
 */
size_t gf_output_snapshot(char *buf, size_t size, unsigned wait_ms);

/* Warns if files of the options would overwrite each other. Called at the start. */
void gf_output_check(void);

/*
 * Starts the thread "gpufeed-live", which updates the report in memory each second. Does nothing if
 * the option is off. Prints a warning if the thread cannot be started; `gpufeed top` then shows the
 * file of GPUFEED_REPORT. Called once, on the library's thread.
 */
void gf_live_start(void);

/*
 * output_files.c: writes the file of GPUFEED_REPORT, and decides when to write it again. The caller
 * holds the report lock, except in gf_report_file_is_due.
 */

/*
 * Replace the file. Print a warning if this fails, but no warning for further failures until a
 * write succeeds. gf_report_file_write does not wait for the file system. It writes on another
 * thread, and does nothing while that thread still writes. gf_report_file_write_last is called at
 * exit, and writes on the calling thread.
 */
void gf_report_file_write(const struct gf_report *report);
void gf_report_file_write_last(const struct gf_report *report);

/*
 * Whether the file is old enough to be replaced between samples: 5 s, or 60 s on a network file
 * system. If the path is a device or a pipe, returns false, because reports are appended to it.
 * Called on the library's thread.
 */
bool gf_report_file_is_due(uint64_t now);

/* Whether hooked calls were made, or samples of GPU time were taken, since the file was written. */
bool gf_report_file_is_news(const struct gf_report *report);

/*
 * Writes and removes the file of GPUFEED_METRICS, which contains the process's metrics and exists
 * while the process runs. The caller holds the report lock.
 */

/*
 * Replaces the file as a whole, on another thread. Prints a warning at the first failure. Does
 * nothing while the other thread still writes.
 */
void gf_metrics_file_write(const struct gf_report *report);

/* Removes the file, if it was written. Called at a normal exit. */
void gf_metrics_file_remove(const struct gf_report *report);

/*
 * start_options.c: options that `gpufeed run` carries out before the program starts:
 * GPUFEED_HUGE_PAGES, GPUFEED_OMP and GPUFEED_TCMALLOC. Under a bare LD_PRELOAD, the engine carries
 * them out as far as a running process permits, and prints one line for each that it cannot carry
 * out. All functions do nothing unless the user set the option.
 */

/* Called on the library's thread when the engine starts. May take the loader's lock. */
void gf_start_options_begin(void);

/*
 * Lowers the number of OpenMP threads of the calling thread to the process's share of the CPUs, once
 * in each process, after the first decision. A thread of the program calls this function, because
 * the runtimes keep the number for each thread that is not one of their own. Keeps errno.
 */
void gf_start_options_openmp(void);

/*
 * transfer_link.c: connects engine/transfer, which serves copies and pinned memory, to the engine's
 * state, log and report.
 */

/*
 * Starts engine/transfer. Returns NULL if copies and pinned memory are both off. Called once, by
 * gf_engine_start.
 */
const struct gf_transfer_ops *gf_transfers_start(void);

/*
 * Makes the preparations that copies have requested. Called on the library's thread, which a
 * request wakes.
 */
void gf_transfers_prepare(void);

/* At GPUFEED_VERBOSE=2, prints the counts of copies so far. */
void gf_transfers_print(void);

/*
 * Moves helpers and the library's thread if the program's threads have moved to other CPUs. Called
 * on the library's thread.
 */
void gf_transfers_follow(void);

/* Reads the counts for the report. May be called on any thread. Makes no CUDA call. */
void gf_transfers_read(struct gf_report_transfers *ret);

/*
 * watch_thread.c: finds the program's GPU by the contexts that were given work, if no hook has told
 * it. On a busy machine, cuInit does not wait for the end of the engine's load, and the program
 * creates its contexts meanwhile. May be called on any thread.
 */
void gf_contexts_find(void);

/*
 * Starts the threads that read and write files for all threads (os/own_table.h). Called before the
 * engine reads the machine, because until then each reading creates a thread.
 */
void gf_watch_servers_start(void);

/*
 * The main function of the library's thread. It runs the starvation guard, binds late threads,
 * moves pages, takes samples and writes the report. Returns at the end of the process.
 */
void gf_watch_thread_run(void);
