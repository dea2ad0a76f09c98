/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/standstill.h"

#include "base/brief_lock.h"

#define SECOND UINT64_C(1000000000)
#define MEDIANS 10u

static struct {
    const struct gf_preload *preload;
    bool (*is_traced)(void);
    void (*tell)(const struct gf_standstill *standstill);
    uint64_t least_ns;    /* 0: never find a standstill */
    uint64_t progress_ns; /* the last sample with progress */
    /* The samples of the present second: how many had a cause of a standstill, and another cause. */
    uint64_t second_ns;
    unsigned still, others;
    bool was_still; /* the last sample at which the thread had a CPU had a cause of a standstill */
    /* The last cause of a standstill, and its line. */
    enum gf_host_cause cause;
    struct gf_python_line at;
    struct gf_standstill found;
    _Atomic bool locked; /* true while a thread reads or writes `published` */
    struct gf_standstill published;
} stand;

void gf_standstill_open(const struct gf_preload *preload, bool (*is_traced)(void),
                        void (*tell)(const struct gf_standstill *standstill))
{
    stand.preload = preload;
    stand.is_traced = is_traced;
    stand.tell = tell;
    stand.least_ns = SECOND * preload->options->standstill;
}

/*
 * Whether a thread with this cause may stand still. A thread that waits for input has nothing to
 * do, and one that computes, compiles, downloads, writes or waits for a child or for workers that
 * compute makes progress. A thread that waits for another thread or process, or not known for what,
 * may be an idle server, or wait for the writing of a checkpoint. So may a thread without a line of
 * Python that waits for a semaphore, which may belong to a queue of C or C++.
 */
static bool is_still(enum gf_host_cause cause, const struct gf_python_line *at)
{
    static const bool still[GF_HOST_CAUSE_COUNT] = {
        [gf_host_driver] = true,        [gf_host_gpu_wait] = true,     [gf_host_gil] = true,
        [gf_host_ranks] = true,         [gf_host_storage] = true,      [gf_host_data] = true,
        [gf_host_workers_sleep] = true, [gf_host_workers_lock] = true, [gf_host_file] = true,
        [gf_host_queue_full] = true,    [gf_host_fault] = true,        [gf_host_sleep] = true};

    return still[cause] || (cause == gf_host_lock && at->line);
}

static void publish(void)
{
    if (!gf_brief_lock(&stand.locked))
        return;
    stand.published = stand.found;
    gf_store_release(&stand.locked, false);
}

void gf_standstill_read(struct gf_standstill *ret)
{
    *ret = (struct gf_standstill){0};
    if (!gf_brief_lock(&stand.locked))
        return;
    *ret = stand.published;
    gf_store_release(&stand.locked, false);
}

static void begin(uint64_t now, const struct gf_step_times *times)
{
    struct gf_step_count steps = {0};

    if (stand.is_traced()) {
        stand.progress_ns = now;
        return;
    }
    if (times->source == gf_step_marks)
        stand.preload->step_count(&steps);
    stand.found = (struct gf_standstill){.count = stand.found.count + 1,
                                         .ongoing = true,
                                         .since_ns = times->last_ns,
                                         .ns = now - times->last_ns,
                                         .step = steps.current,
                                         .cause = stand.cause,
                                         .at = stand.at};
    publish();
    stand.tell(&stand.found);
}

static void end(uint64_t now)
{
    if (!stand.found.ongoing)
        return;
    stand.found.ongoing = false;
    stand.found.ns = now - stand.found.since_ns;
    publish();
    stand.tell(&stand.found);
}

/* Called once a second while nothing progresses. last_ns is 0 between two steps. */
static void check(uint64_t now)
{
    struct gf_step_times times;

    if (now - stand.progress_ns < gf_min(stand.least_ns, SECOND))
        return;
    stand.preload->step_times(&times);
    const uint64_t since = gf_max(stand.progress_ns, times.last_ns),
                   least = gf_max(stand.least_ns, MEDIANS * times.p50_ns);
    const bool stands =
        times.source != gf_step_none && times.last_ns && now > since && now - since >= least;
    if (!stands) {
        end(now);
    } else if (!stand.found.ongoing) {
        begin(now, &times);
    } else {
        stand.found.ns = now - stand.found.since_ns;
        publish();
    }
}

static void see_progress(uint64_t now)
{
    stand.progress_ns = now;
    stand.at.line = 0;
    stand.was_still = false;
    stand.still = stand.others = 0;
    stand.second_ns = now;
    end(now);
}

bool gf_standstill_is_near(uint64_t now)
{
    return stand.least_ns && now - stand.progress_ns >= SECOND;
}

void gf_standstill_see(uint64_t now, bool progress, enum gf_host_cause cause,
                       const struct gf_python_line *at)
{
    if (!stand.least_ns)
        return;
    if (progress || !stand.progress_ns) {
        see_progress(now);
        return;
    }
    if (!gf_standstill_is_near(now)) { /* of a busy GPU, no cause is known yet */
        stand.second_ns = now;
        return;
    }
    /* A thread without a CPU counts as still doing what it did before. */
    if (cause != gf_host_preempted)
        stand.was_still = is_still(cause, at);
    stand.still += stand.was_still;
    stand.others += !stand.was_still;
    if (stand.was_still && cause != gf_host_preempted) {
        /* Of a thread that polls, the frames cannot always be read. */
        if (at->line || cause != stand.cause)
            stand.at = *at;
        stand.cause = cause;
    }
    if (now - stand.second_ns < SECOND)
        return;
    if (stand.others > stand.still) {
        see_progress(now);
        return;
    }
    check(now);
    stand.still = stand.others = 0;
    stand.second_ns = now;
}
