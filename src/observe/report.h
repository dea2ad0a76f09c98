/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library knows about this process, and its two renderings: the JSON report
 * (docs/report.md is its schema) and the lines on standard error. The engine fills the struct in;
 * nothing here reads the system.
 */
#ifndef GF_OBSERVE_REPORT_H
#define GF_OBSERVE_REPORT_H

#include "config/options.h"
#include "heap/heap.h"
#include "host/headroom.h"
#include "host/machine.h"
#include "host/pressure.h"
#include "observe/decision.h"
#include "observe/embedded.h"
#include "observe/journal.h"
#include "observe/report_transfers.h"
#include "observe/stall.h"
#include "observe/tally.h"
#include "place/hint.h"

#define GF_REPORT_SCHEMA 1
#define GF_REPORT_SAMPLES 64
#define GF_REPORT_EVENTS 32

struct gf_report_sample {
    uint64_t at_ms; /* since the engine started */
    struct gf_threads threads;
    struct gf_locality locality;
};

enum gf_report_event_kind {
    gf_report_rebound, /* another device, other CPUs */
    gf_report_widened,
    gf_report_left, /* copies or pinned allocations are left to the driver from now on */
    gf_report_ring, /* of the log only */
};

struct gf_report_event {
    enum gf_report_event_kind kind;
    uint64_t at_ms;
    char text[160];
};

/* What the library's own work has cost the program. */
struct gf_report_costs {
    uint64_t start_us;     /* reading machine and facts, under cuInit */
    uint64_t decide_us;    /* deciding and binding, all times together */
    uint64_t sample_us;    /* reading locality, on the library's thread */
    uint64_t migrate_us;   /* moving pages, on the library's thread */
    uint64_t report_us;    /* writing reports */
    uint64_t thread_us;    /* CPU time of the library's thread */
};

struct gf_report_migration {
    bool wanted, done;
    uint64_t bytes;      /* that were handed to mbind */
    uint64_t calls, refused;
    int error;           /* the last */
    struct gf_pages before, after; /* the heap's pages */
};

/* The watch on memory: src/engine/keep.c. */
struct gf_report_memory {
    bool watched;
    uint64_t looks, lends, give_backs;
    uint64_t least_room;
    struct gf_headroom room; /* at the last look */
    struct gf_pressure pressure;
};

struct gf_report {
    /* the process */
    const char *version;
    pid_t pid;
    char program[256];
    uint64_t started_s; /* wall clock */
    uint64_t ran_ms;
    bool ended;         /* written at a normal exit */

    const struct gf_options *options;
    const struct gf_machine *machine; /* NULL: could not be read */
    int machine_error;
    const struct gf_facts *facts;
    const struct gf_hint *hint;       /* inherited and honoured; NULL */

    bool decided;
    struct gf_decision decision; /* the latest */

    /* what was done */
    unsigned late_threads;   /* bound by later rescans or at birth */
    unsigned policy_threads; /* were given a memory policy */
    unsigned policy_refused;
    struct gf_report_migration migration;
    const struct gf_heap_ops *heap;
    struct gf_report_memory memory;
    struct gf_embedded embedded;
    struct gf_transfer_report transfers;

    /* what was seen */
    struct gf_report_sample samples[GF_REPORT_SAMPLES];
    size_t sample_count;
    struct gf_threads peak; /* the most at one time */
    unsigned peak_descendants;
    struct gf_report_event events[GF_REPORT_EVENTS];
    size_t event_count;
    uint64_t guard_run_ns, guard_delay_ns, guard_throttled_ns;
    uint64_t driver_bytes; /* device memory that was allocated, all devices */
    struct gf_report_costs costs;

    void (*each_hook)(gf_tally_see *see, void *closure);
    void (*log_count)(struct gf_journal_count *ret); /* NULL: there is no log */
    void (*stall_counts)(struct gf_stall_count ret[GF_CAUSE_COUNT]);
    void (*each_latency)(gf_latency_see *see, void *closure);
};

/* Writes the report; like snprintf, returns the length it needs. */
size_t gf_report_json(const struct gf_report *report, char *buf, size_t size);

/* Parts of it. */
struct gf_json;
void gf_report_put_stalls(struct gf_json *json, const struct gf_report *report);
void gf_report_put_heap(struct gf_json *json, const struct gf_report *report);
void gf_report_put_pages(struct gf_json *json, const char *key, const struct gf_pages *pages);

/* Drops every other sample when the ring is full; never fails. */
void gf_report_add_sample(struct gf_report *report, const struct gf_report_sample *sample);

/* The line at exit: what was read back. */
void gf_summary_exit(const struct gf_report *report, char *buf, size_t size);

const char *gf_policy_name(int policy);
const char *gf_report_event_name(enum gf_report_event_kind kind);

#endif
