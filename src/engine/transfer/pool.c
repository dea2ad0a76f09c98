/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pool.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/helper.h"
#include "engine/transfer/tuning.h"
#include "host/tasks.h"
#include "os/cpu_claim.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/*
 * The jobs that the calling thread runs now. A handler of a signal may interrupt the thread and fork.
 * In the child, which has no helpers, each of these jobs then ends as if its first piece had failed.
 */

struct gf_running {
    struct gf_pieces *job;
    pthread_mutex_t *lock;    /* the pool's, which another thread may hold at the fork */
    struct gf_running *outer; /* the call that a handler of a signal has interrupted */
};

static __thread struct gf_running *running; /* the innermost call on this thread */

static void gf_running_begin(struct gf_running *run)
{
    run->outer = running;
    running = run;
    atomic_signal_fence(memory_order_seq_cst);
}

static void gf_running_end(const struct gf_running *run)
{
    atomic_signal_fence(memory_order_seq_cst);
    running = run->outer;
}

/* Called in a forked child. */
static void gf_running_in_child(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

    for (const struct gf_running *run = running; run; run = run->outer) {
        memcpy(run->lock, &unlocked, sizeof(unlocked));
        gf_store_relaxed(&run->job->failed, 0);
        gf_store_relaxed(&run->job->helpers, 0);
    }
}

#define HELPERS_MAX 64 /* the most that GPUFEED_STAGE_THREADS allows */

struct gf_pool {
    struct gf_pool *next; /* pools are never freed */
    int node;
    /* The node's CPUs that the program could use when the pool was created. */
    struct gf_cpus cpus;
    unsigned threads; /* number of copying threads, the caller included */
    bool counted;     /* `threads` was calculated from the CPUs, not set by an option */
    /* number of threads for which the program has CPUs now; at most `threads` */
    _Atomic unsigned usable;
    _Atomic unsigned noted; /* the last number that gf_pool_note_threads got */
    bool has_pkru;
    bool apart; /* written before the helpers start */
    enum gf_helper_priority priority;
    _Atomic int priority_error; /* an errno */
    _Atomic bool requested, started, failed;
    _Atomic unsigned alive;    /* number of helpers that run */
    struct gf_cpu_claim claim; /* used only by gf_pools_follow */
    unsigned sharers;          /* processes that last claimed the CPUs; 0: not counted yet */

    pthread_mutex_t lock; /* guards the next five members; an innermost lock */
    struct gf_cpus now;   /* the helpers' CPUs: `cpus` without those that the program gave up */
    pid_t tids[HELPERS_MAX];
    unsigned tid_count;
    struct gf_pieces *cursor; /* the job that is examined next */
    _Atomic unsigned jobs;    /* written under the lock */

    _Alignas(64) struct gf_eventcount events; /* notifies helpers that a job may have work */
};

static struct gf_pool *_Atomic pools;

/* The thread holds a pool's lock, or is about to take it. So a handler of a signal must not take it. */
static __thread bool locks;

bool gf_pool_is_interrupted(void)
{
    return locks;
}

static void lock_jobs(struct gf_pool *pool)
{
    locks = true;
    atomic_signal_fence(memory_order_seq_cst);
    pthread_mutex_lock(&pool->lock);
}

static void unlock_jobs(struct gf_pool *pool)
{
    pthread_mutex_unlock(&pool->lock);
    atomic_signal_fence(memory_order_seq_cst);
    locks = false;
}

/*
 * If ranks share the CPUs, a rank has at most as many threads as CPUs of its own (rank_cpus). But
 * each rank has at least GF_TUNE_FEW_THREADS threads, because fewer would be slower than the
 * driver, and because ranks do not copy all the time.
 */
static unsigned share_of(unsigned cpus, unsigned rank_cpus)
{
    return gf_min(cpus, gf_max(rank_cpus, (unsigned)GF_TUNE_FEW_THREADS));
}

/* Returns the number of copying threads. */
static unsigned choose_threads(unsigned cpus, double quota, unsigned rank_cpus)
{
    if (quota > 0 && quota < cpus)
        cpus = (unsigned)quota;
    if (rank_cpus)
        cpus = share_of(cpus, rank_cpus);
    return gf_max(1u, gf_min(cpus, (unsigned)GF_TUNE_THREADS));
}

/* GPUs whose nodes are unknown share a pool only if their sets of CPUs are equal. */
static struct gf_pool *find_pool(int node, const struct gf_cpus *cpus)
{
    struct gf_pool *pool = gf_load_acquire(&pools);
    while (pool &&
           (pool->node != node || (node < 0 && memcmp(&pool->cpus, cpus, sizeof(*cpus)) != 0)))
        pool = pool->next;
    return pool;
}

struct gf_pool *gf_pool_get(int node, const struct gf_cpus *cpus, const struct gf_pool_size *size)
{
    struct gf_pool *pool = find_pool(node, cpus), *made, *head;
    if (pool)
        return pool;
    made = aligned_alloc(64, sizeof(*made));
    if (!made)
        return NULL;
    *made = (struct gf_pool){.node = node,
                             .cpus = *cpus,
                             .now = *cpus,
                             .counted = !size->threads,
                             .has_pkru = gf_pkru_is_on(),
                             .priority = size->priority,
                             .lock = PTHREAD_MUTEX_INITIALIZER};
    made->threads = size->threads
                        ? size->threads
                        : choose_threads(gf_set_count(cpus), size->quota, size->rank_cpus);
    gf_store_relaxed(&made->usable, made->threads);
    head = gf_load_acquire(&pools);
    do {
        pool = find_pool(node, cpus); /* another thread may have just created it */
        made->next = head;
    } while (!pool && !gf_cas_acq_rel(&pools, &head, made));
    if (!pool)
        return made;
    free(made);
    return pool;
}

unsigned gf_pool_threads(const struct gf_pool *pool)
{
    return gf_load_relaxed(&pool->usable);
}

bool gf_pool_note_threads(struct gf_pool *pool, unsigned threads)
{
    return gf_unlikely(gf_load_relaxed(&pool->noted) != threads) &&
           gf_exchange_relaxed(&pool->noted, threads) != threads;
}

unsigned gf_pool_helpers(const struct gf_pool *pool)
{
    return gf_load_relaxed(&pool->alive);
}

struct gf_pool *gf_pool_with_helpers(unsigned helpers)
{
    struct gf_pool *pool = gf_load_acquire(&pools);
    while (pool && gf_pool_helpers(pool) < helpers)
        pool = pool->next;
    return locks ? NULL : pool;
}

unsigned gf_pool_jobs(const struct gf_pool *pool)
{
    return gf_load_relaxed(&pool->jobs);
}

/* The ring of open jobs. The callers of these functions hold the lock. */

static void insert_job(struct gf_pool *pool, struct gf_pieces *job)
{
    const unsigned jobs = gf_pool_jobs(pool);
    gf_store_relaxed(&pool->jobs, jobs + 1);
    if (jobs > 0) {
        job->after = pool->cursor;
        job->before = pool->cursor->before;
        job->before->after = job->after->before = job;
    } else {
        pool->cursor = job->before = job->after = job;
    }
}

static void remove_job(struct gf_pool *pool, struct gf_pieces *job)
{
    const unsigned jobs = gf_pool_jobs(pool) - 1;
    gf_store_relaxed(&pool->jobs, jobs);
    if (jobs > 0) {
        job->before->after = job->after;
        job->after->before = job->before;
        if (pool->cursor == job)
            pool->cursor = job->after;
    } else {
        pool->cursor = NULL;
    }
}

/* Helpers. */

static bool may_enter(const struct gf_pieces *job)
{
    return gf_pieces_unclaimed(job) &&
           (!job->max_helpers || gf_load_relaxed(&job->helpers) < job->max_helpers);
}

/*
 * Finds the next open job that has work, and adds the calling helper to that job's count of
 * helpers. Jobs of low priority come last. NULL: no job has work.
 */
static struct gf_pieces *enter_next_job(struct gf_pool *pool)
{
    struct gf_pieces *found = NULL;

    if (!gf_pool_jobs(pool))
        return NULL;
    pthread_mutex_lock(&pool->lock);
    const unsigned jobs = gf_pool_jobs(pool);
    for (unsigned i = 0; i < 2 * jobs && !found; i++) {
        if (pool->cursor->low_priority == (i >= jobs) && may_enter(pool->cursor))
            found = pool->cursor;
        pool->cursor = pool->cursor->after;
    }
    if (found)
        gf_add_acq_rel(&found->helpers, 1);
    pthread_mutex_unlock(&pool->lock);
    return found;
}

/*
 * Does one piece with the owner's protection key rights, because a helper must not read memory that
 * the owner may not read.
 */
static void help_as_owner(struct gf_pool *pool, struct gf_pieces *job)
{
    const uint32_t own = pool->has_pkru ? gf_pkru_get() : 0;
    if (pool->has_pkru && own != job->pkru)
        gf_pkru_set(job->pkru);
    gf_pieces_help(job);
    if (pool->has_pkru && own != job->pkru)
        gf_pkru_set(own);
}

/*
 * A helper leaves a job without an owner. Helpers enter jobs under the same lock, so the last
 * helper that leaves sees that the job is finished.
 */
static void leave_unowned_job(struct gf_pool *pool, struct gf_pieces *job)
{
    pthread_mutex_lock(&pool->lock);
    const bool done = gf_sub_acq_rel(&job->helpers, 1) == 1 && !gf_pieces_unclaimed(job);
    if (done)
        remove_job(pool, job);
    pthread_mutex_unlock(&pool->lock);
    if (done)
        job->done(job);
}

/* The owner may free the job as soon as the count has reached 0. */
static void leave_job(struct gf_pool *pool, struct gf_pieces *job)
{
    if (job->done)
        leave_unowned_job(pool, job);
    else if (gf_sub_acq_rel(&job->helpers, 1) == 1)
        gf_futex_wake(&job->helpers, 1);
}

/*
 * Spins until there may be work. Returns false if there was none for some time. More work often
 * follows at once, and waking up costs more than spinning.
 */
static bool spin_for_work(const struct gf_pool *pool, uint32_t seen)
{
    const uint64_t begun = gf_now_ns();
    uint64_t now;
    do {
        for (unsigned i = 0; i < 16; i++)
            gf_relax();
        if (gf_load_acquire(&pool->events.count) != seen)
            return true;
        now = gf_now_ns();
    } while (now - begun < GF_TUNE_IDLE_SPIN_NS ||
             (gf_pool_jobs(pool) && now - begun < GF_TUNE_HELPER_SPIN_NS));
    return false;
}

static void set_helper_mask(pid_t tid, const struct gf_cpus *cpus)
{
    if (!gf_set_empty(cpus))
        gf_tasks_set_mask(tid, cpus);
}

static struct gf_cpus helper_cpus(struct gf_pool *pool, pid_t enrol)
{
    pthread_mutex_lock(&pool->lock);
    if (enrol && pool->tid_count < HELPERS_MAX)
        pool->tids[pool->tid_count++] = enrol;
    const struct gf_cpus now = pool->now;
    pthread_mutex_unlock(&pool->lock);
    return now;
}

/*
 * Adds the calling helper to the pool's list, and sets its mask to the pool's CPUs. From then on
 * gf_pools_follow may change these CPUs, and set the helper's mask just before the helper sets the
 * old CPUs. So the helper reads the pool's CPUs again after it has set its mask, until they are
 * equal. Otherwise the helper would keep the old mask.
 */
static void enrol_helper(struct gf_pool *pool)
{
    struct gf_cpus now = helper_cpus(pool, (pid_t)syscall(SYS_gettid)), set;

    do {
        set = now;
        set_helper_mask(0, &set);
        now = helper_cpus(pool, 0);
    } while (!gf_set_equal(&now, &set));
}

static void follow_program(struct gf_pool *pool, const struct gf_cpus *program)
{
    struct gf_cpus now;

    gf_set_and(&now, &pool->cpus, program);
    if (gf_set_empty(&now))
        now = *program;
    if (gf_set_equal(&now, &pool->now))
        return;
    pthread_mutex_lock(&pool->lock);
    pool->now = now;
    for (unsigned i = 0; i < pool->tid_count; i++)
        set_helper_mask(pool->tids[i], &now);
    pthread_mutex_unlock(&pool->lock);
}

/*
 * Ranks whose launcher sets no variables share the CPUs as well, but their number is known only
 * when they run. Only this function's thread writes pool->now.
 */
static void count_usable(struct gf_pool *pool)
{
    const unsigned cpus = gf_set_count(&pool->now);
    const unsigned found = gf_pool_helpers(pool) ? gf_cpu_claim_count(&pool->claim, &pool->now) : 1;

    if (found)
        pool->sharers = found;
    const unsigned share = share_of(cpus, cpus / gf_max(pool->sharers, 1U));
    gf_store_relaxed(&pool->usable, gf_min(pool->threads, share));
}

void gf_pools_follow(const struct gf_cpus *program)
{
    for (struct gf_pool *p = gf_load_acquire(&pools); p; p = p->next) {
        follow_program(p, program);
        if (p->counted)
            count_usable(p);
    }
}

static void *run_helper(void *arg)
{
    struct gf_pool *pool = arg;

    prctl(PR_SET_NAME, "gpufeed-copy");
    if (pool->apart)
        gf_own_table_joined();
    gf_store_relaxed(&pool->priority_error, gf_priority_apply(pool->priority));
    enrol_helper(pool);
    gf_add_acq_rel(&pool->alive, 1);
    for (;;) {
        const uint32_t seen = gf_eventcount_read(&pool->events);
        struct gf_pieces *job = enter_next_job(pool);
        if (job) {
            help_as_owner(pool, job);
            leave_job(pool, job);
        } else if (!spin_for_work(pool, seen)) {
            gf_eventcount_sleep(&pool->events, seen);
        }
    }
    return NULL;
}

/* Waits at most 0.1 s for the first helper, and prints why its priority was refused. */
static void report_priority(const struct gf_pool *pool)
{
    for (unsigned i = 0; i < 100 && !gf_load_acquire(&pool->alive); i++)
        gf_sleep_ns(1000000);
    gf_priority_warn(pool->priority, gf_load_relaxed(&pool->priority_error));
}

int gf_pool_start(struct gf_pool *pool)
{
    if (pool->threads < 2 || gf_load_relaxed(&pool->started) ||
        gf_exchange_relaxed(&pool->started, true))
        return 0;
    static bool watches; /* used on the library's own thread only */
    watches = watches || pthread_atfork(NULL, NULL, gf_running_in_child) == 0;
    const int error = gf_helpers_start_apart(pool->threads - 1, run_helper, pool, &pool->apart);
    if (!error && pool->priority != gf_helper_priority_normal)
        report_priority(pool);
    gf_store_relaxed(&pool->failed, error != 0);
    return error;
}

bool gf_pool_is_apart(const struct gf_pool *pool)
{
    return pool->apart;
}

bool gf_pool_has_failed(const struct gf_pool *pool)
{
    return gf_load_relaxed(&pool->failed);
}

static bool is_awake(struct gf_pool *pool)
{
    pid_t tids[HELPERS_MAX];

    /* The caller may be a signal handler that interrupted the lock's holder. */
    if (pthread_mutex_trylock(&pool->lock) != 0)
        return true;
    const unsigned count = pool->tid_count;
    memcpy(tids, pool->tids, count * sizeof(tids[0]));
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < count; i++) {
        const char state = gf_procfs_thread_state(tids[i]);
        if (state && state != 'S')
            return true;
    }
    return false;
}

bool gf_pools_are_awake(void)
{
    struct gf_pool *pool = gf_load_acquire(&pools);
    while (pool && !is_awake(pool))
        pool = pool->next;
    return pool;
}

bool gf_pool_request(struct gf_pool *pool)
{
    return pool->threads > 1 && !gf_load_relaxed(&pool->requested) &&
           !gf_exchange_seq_cst(&pool->requested, true);
}

int gf_pools_start_requested(void)
{
    int error = 0;
    for (struct gf_pool *p = gf_load_acquire(&pools); p && !error; p = p->next)
        if (gf_load_seq_cst(&p->requested))
            error = gf_pool_start(p);
    return error;
}

/* Owners. */

static unsigned usable_helpers(const struct gf_pool *pool, const struct gf_pieces *job,
                               uint64_t pieces)
{
    return (unsigned)gf_min(
        pieces, (uint64_t)(job->max_helpers ? job->max_helpers : gf_pool_threads(pool)));
}

/*
 * How many helpers to wake for a job that could use `helpers` helpers. Helpers that are awake find
 * the job themselves. If no other job is open, helpers beyond max_helpers would be woken in vain:
 * they would spin, but may not enter the job.
 */
static unsigned helpers_to_wake(const struct gf_pool *pool, unsigned max_helpers, unsigned helpers)
{
    const unsigned asleep = gf_eventcount_sleepers(&pool->events);
    const unsigned alive = gf_pool_helpers(pool), awake = alive > asleep ? alive - asleep : 0;

    if (!asleep || !max_helpers || gf_pool_jobs(pool) > 1)
        return asleep ? helpers : 0;
    return max_helpers > awake ? gf_min(helpers, max_helpers - awake) : 0;
}

/*
 * Wakes helpers with one system call. If they were woken one after the other, the last helper would
 * be late by the sum of all wake-up times. This function does not read the job, because a job
 * without an owner may already be done and its memory reused.
 */
static void wake_helpers(struct gf_pool *pool, unsigned max_helpers, unsigned helpers)
{
    gf_eventcount_advance(&pool->events);
    const unsigned wanted = helpers_to_wake(pool, max_helpers, helpers);
    if (wanted)
        gf_eventcount_wake(&pool->events, wanted);
}

/* Opens a job that helpers can see unless it is `alone`. */
static void open_job(struct gf_pool *pool, struct gf_pieces *job, uint64_t limit, bool alone)
{
    const unsigned max_helpers = job->max_helpers;
    const unsigned helpers = usable_helpers(pool, job, job->total ? job->total : limit);

    job->alone = alone;
    gf_pieces_init(job, limit, pool->has_pkru ? gf_pkru_get() : 0);
    if (alone)
        return;
    lock_jobs(pool);
    insert_job(pool, job);
    unlock_jobs(pool);
    wake_helpers(pool, max_helpers, helpers);
}

void gf_pool_open(struct gf_pool *pool, struct gf_pieces *job, uint64_t limit)
{
    /* Helpers work on the job of a real-time thread only if that thread never waits for the job. */
    open_job(pool, job, limit, locks || (!job->done && !job->low_priority && gf_is_realtime()));
}

void gf_pool_raise(struct gf_pool *pool, struct gf_pieces *job, uint64_t limit)
{
    const uint64_t more = limit - gf_load_relaxed(&job->limit);
    gf_store_seq_cst(&job->limit, limit);
    if (!job->alone)
        wake_helpers(pool, job->max_helpers, usable_helpers(pool, job, more));
}

uint64_t gf_pool_close(struct gf_pool *pool, struct gf_pieces *job)
{
    gf_store_seq_cst(&job->limit, 0);
    if (job->alone)
        return gf_load_relaxed(&job->failed);
    lock_jobs(pool);
    remove_job(pool, job);
    unlock_jobs(pool);
    if (gf_load_acquire(&job->helpers) != 0)
        gf_pieces_await_helpers(job);
    return gf_load_relaxed(&job->failed);
}

uint64_t gf_pool_run(struct gf_pool *pool, struct gf_pieces *job, uint64_t pieces)
{
    struct gf_running run = {.job = job, .lock = &pool->lock};

    gf_running_begin(&run);
    gf_pool_open(pool, job, pieces);
    while (gf_pieces_help(job))
        ;
    const uint64_t failed = gf_pool_close(pool, job);
    gf_running_end(&run);
    return failed;
}

/* Waits until a helper has claimed a piece, or a piece counts as failed in a forked child. */
static bool await_claim(const struct gf_pieces *job, uint64_t patience_ns)
{
    static const struct timespec moment = {.tv_nsec = 20000};
    const uint64_t begun = gf_now_ns();

    for (uint64_t waited = 0; gf_load_relaxed(&job->next) == 0; waited = gf_now_ns() - begun) {
        if (gf_pieces_failed(job) != GF_PIECE_NONE)
            return true;
        if (waited >= patience_ns)
            return false;
        if (waited < GF_TUNE_CALLER_SPIN_NS)
            gf_relax();
        else
            syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    return true;
}

/* The first piece that was not done. */
static uint64_t first_undone(const struct gf_pieces *job, uint64_t pieces)
{
    const uint64_t claimed = gf_load_relaxed(&job->next);

    if (gf_pieces_failed(job) != GF_PIECE_NONE || claimed >= pieces)
        return gf_pieces_failed(job);
    return claimed;
}

uint64_t gf_pool_run_by_helpers(struct gf_pool *pool, struct gf_pieces *job, uint64_t pieces,
                                uint64_t patience_ns)
{
    struct gf_running run = {.job = job, .lock = &pool->lock};

    gf_running_begin(&run);
    /* also for a thread that has just become a real-time one, and for no handler */
    open_job(pool, job, pieces, false);
    if (await_claim(job, patience_ns))
        for (uint32_t seen; seen = gf_pieces_events(job), gf_pieces_unclaimed(job);)
            gf_pieces_wait(job, seen);
    gf_pool_close(pool, job);
    const uint64_t undone = first_undone(job, pieces);
    gf_running_end(&run);
    return undone;
}
