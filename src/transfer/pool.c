/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/pool.h"

#include "base/clock.h"
#include "transfer/futex.h"
#include "transfer/helper.h"
#include "transfer/rights.h"
#include "transfer/tuning.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct gf_pool {
    struct gf_pool *next; /* pools are made and never freed */
    int node;
    struct gf_cpus cpus;
    unsigned threads; /* the caller included */
    bool has_rights;
    unsigned wanted, started, alive, refused;

    pthread_mutex_t lock; /* of the ring of open jobs; nothing is done under it but looking */
    struct gf_job *cursor; /* whom to look at next */
    unsigned jobs; /* read without the lock too */

    _Alignas(64) uint32_t bell; /* counts the occasions to look */
    uint32_t sleepers; /* who wakes them takes them off */
};

static struct gf_pool *pools;

static unsigned choose_threads(unsigned cpus, double quota)
{
    if (quota > 0 && quota < cpus)
        cpus = (unsigned)quota;
    return gf_max(1u, gf_min(cpus, (unsigned)GF_TUNE_THREADS));
}

static struct gf_pool *find(int node)
{
    struct gf_pool *pool = __atomic_load_n(&pools, __ATOMIC_ACQUIRE);
    while (pool && pool->node != node)
        pool = pool->next;
    return pool;
}

struct gf_pool *gf_pool_get(int node, const struct gf_cpus *cpus, unsigned threads, double quota)
{
    struct gf_pool *pool = find(node), *made, *head;
    if (pool)
        return pool;
    made = aligned_alloc(64, sizeof(*made));
    if (!made)
        return NULL;
    *made = (struct gf_pool){.node = node, .cpus = *cpus, .has_rights = gf_rights_known(),
                             .lock = PTHREAD_MUTEX_INITIALIZER};
    made->threads = threads ? threads : choose_threads(gf_set_count(cpus), quota);
    head = __atomic_load_n(&pools, __ATOMIC_ACQUIRE);
    do {
        pool = find(node); /* another thread's, made meanwhile */
        made->next = head;
    } while (!pool && !__atomic_compare_exchange_n(&pools, &head, made, false, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_ACQUIRE));
    if (!pool)
        return made;
    free(made);
    return pool;
}

unsigned gf_pool_threads(const struct gf_pool *pool)
{
    return pool->threads;
}

unsigned gf_pool_helpers(const struct gf_pool *pool)
{
    return __atomic_load_n(&pool->alive, __ATOMIC_RELAXED);
}

struct gf_pool *gf_pool_awake(unsigned helpers)
{
    struct gf_pool *pool = __atomic_load_n(&pools, __ATOMIC_ACQUIRE);
    while (pool && gf_pool_helpers(pool) < helpers)
        pool = pool->next;
    return pool;
}

unsigned gf_pool_jobs(const struct gf_pool *pool)
{
    return __atomic_load_n(&pool->jobs, __ATOMIC_RELAXED);
}

/* Claiming. */

static bool has_failed(const struct gf_job *job)
{
    return __atomic_load_n(&job->failed, __ATOMIC_RELAXED) != GF_PIECE_NONE;
}

static uint64_t unclaimed(const struct gf_job *job)
{
    const uint64_t next = __atomic_load_n(&job->next, __ATOMIC_ACQUIRE);
    const uint64_t limit = __atomic_load_n(&job->limit, __ATOMIC_ACQUIRE);
    return next < limit && !has_failed(job) ? limit - next : 0;
}

static bool claim(struct gf_job *job, uint64_t *ret)
{
    uint64_t next = __atomic_load_n(&job->next, __ATOMIC_RELAXED);
    do {
        if (next >= __atomic_load_n(&job->limit, __ATOMIC_ACQUIRE) || has_failed(job))
            return false;
    } while (!__atomic_compare_exchange_n(&job->next, &next, next + 1, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    *ret = next;
    return true;
}

static void fail(struct gf_job *job, uint64_t piece)
{
    uint64_t first = __atomic_load_n(&job->failed, __ATOMIC_RELAXED);
    while (piece < first &&
           !__atomic_compare_exchange_n(&job->failed, &first, piece, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
        ;
    gf_pool_ring(job);
}

bool gf_pool_help(struct gf_job *job)
{
    uint64_t piece;
    if (!claim(job, &piece))
        return false;
    if (!job->work(job, piece))
        fail(job, piece);
    return true;
}

/* Locked. How many there are then. */
static unsigned add_jobs(struct gf_pool *pool, int n)
{
    const unsigned jobs = pool->jobs + (unsigned)n;
    __atomic_store_n(&pool->jobs, jobs, __ATOMIC_RELAXED);
    return jobs;
}

/* Locked. */
static void take_out(struct gf_pool *pool, struct gf_job *job)
{
    if (add_jobs(pool, -1) > 0) {
        job->before->after = job->after;
        job->after->before = job->before;
        if (pool->cursor == job)
            pool->cursor = job->after;
    } else {
        pool->cursor = NULL;
    }
}

/* Helpers. */

static bool may_enter(const struct gf_job *job)
{
    return unclaimed(job) &&
           (!job->most || __atomic_load_n(&job->inside, __ATOMIC_RELAXED) < job->most);
}

/* The next job in the round that has something to do, the patient ones last; entered. */
static struct gf_job *pick(struct gf_pool *pool)
{
    struct gf_job *found = NULL;

    if (!gf_pool_jobs(pool))
        return NULL;
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < 2 * pool->jobs && !found; i++) {
        if (pool->cursor->patient == (i >= pool->jobs) && may_enter(pool->cursor))
            found = pool->cursor;
        pool->cursor = pool->cursor->after;
    }
    if (found)
        __atomic_fetch_add(&found->inside, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&pool->lock);
    return found;
}

static void work_as(struct gf_pool *pool, struct gf_job *job)
{
    const uint32_t own = pool->has_rights ? gf_rights_get() : 0;
    if (pool->has_rights && own != job->rights)
        gf_rights_set(job->rights);
    gf_pool_help(job);
    if (pool->has_rights && own != job->rights)
        gf_rights_set(own);
}

/* Who leaves last sees it, as helpers enter under the lock, too. */
static void leave_unowned(struct gf_pool *pool, struct gf_job *job)
{
    pthread_mutex_lock(&pool->lock);
    const bool done = __atomic_sub_fetch(&job->inside, 1, __ATOMIC_ACQ_REL) == 0 && !unclaimed(job);
    if (done)
        take_out(pool, job);
    pthread_mutex_unlock(&pool->lock);
    if (done)
        job->gone(job);
}

/* The job may be gone once its owner has seen the count fall. */
static void leave(struct gf_pool *pool, struct gf_job *job)
{
    if (job->gone)
        leave_unowned(pool, job);
    else if (__atomic_fetch_sub(&job->inside, 1, __ATOMIC_ACQ_REL) == 1)
        gf_futex_wake(&job->inside, 1);
}

/* More is likely to come at once, and waking up would cost more than looking. */
static bool look_on(const struct gf_pool *pool, uint32_t seen)
{
    const uint64_t begun = gf_now_ns();
    uint64_t now;
    do {
        for (unsigned i = 0; i < 16; i++)
            gf_relax();
        if (__atomic_load_n(&pool->bell, __ATOMIC_ACQUIRE) != seen)
            return true;
        now = gf_now_ns();
    } while (now - begun < GF_TUNE_IDLE_SPIN_NS ||
             (gf_pool_jobs(pool) && now - begun < GF_TUNE_HELPER_SPIN_NS));
    return false;
}

static void rest(struct gf_pool *pool, uint32_t seen)
{
    if (look_on(pool, seen))
        return;
    __atomic_fetch_add(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    if (!gf_futex_wait(&pool->bell, seen))
        __atomic_fetch_sub(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
}

static void *help(void *arg)
{
    struct gf_pool *pool = arg;

    prctl(PR_SET_NAME, "gpufeed-copy");
    if (!gf_set_empty(&pool->cpus))
        syscall(SYS_sched_setaffinity, 0, sizeof(pool->cpus), &pool->cpus);
    __atomic_fetch_add(&pool->alive, 1, __ATOMIC_RELAXED);
    for (;;) {
        const uint32_t seen = __atomic_load_n(&pool->bell, __ATOMIC_SEQ_CST);
        struct gf_job *job = pick(pool);
        if (!job) {
            rest(pool, seen);
            continue;
        }
        work_as(pool, job);
        leave(pool, job);
    }
    return NULL;
}

int gf_pool_start(struct gf_pool *pool)
{
    if (pool->threads < 2 || __atomic_load_n(&pool->started, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&pool->started, 1, __ATOMIC_RELAXED))
        return 0;
    const int error = gf_helpers_start(pool->threads - 1, help, pool);
    __atomic_store_n(&pool->refused, error != 0, __ATOMIC_RELAXED);
    return error;
}

bool gf_pool_is_refused(const struct gf_pool *pool)
{
    return __atomic_load_n(&pool->refused, __ATOMIC_RELAXED);
}

bool gf_pool_want(struct gf_pool *pool)
{
    return pool->threads > 1 && !__atomic_load_n(&pool->wanted, __ATOMIC_RELAXED) &&
           !__atomic_exchange_n(&pool->wanted, 1, __ATOMIC_SEQ_CST);
}

int gf_pools_start(void)
{
    int error = 0;
    for (struct gf_pool *p = __atomic_load_n(&pools, __ATOMIC_ACQUIRE); p && !error; p = p->next)
        if (__atomic_load_n(&p->wanted, __ATOMIC_SEQ_CST))
            error = gf_pool_start(p);
    return error;
}

/* Owners. */

static unsigned helpers_for(const struct gf_pool *pool, const struct gf_job *job, uint64_t pieces)
{
    return (unsigned)gf_min(pieces, (uint64_t)(job->most ? job->most : pool->threads));
}

/*
 * How many of those that a job could have are to be woken. Who is awake looks for it by himself; others would
 * look on all the time for what they may not enter, if there is nothing else.
 */
static unsigned wanted_of(struct gf_pool *pool, unsigned most, unsigned helpers)
{
    const unsigned asleep = __atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST);
    const unsigned alive = gf_pool_helpers(pool), awake = alive > asleep ? alive - asleep : 0;

    if (!asleep || !most || gf_pool_jobs(pool) > 1)
        return asleep ? helpers : 0;
    return most > awake ? gf_min(helpers, most - awake) : 0;
}

/*
 * All in one go: one after the other they would be late by the sum of their wake-up times. The job is not
 * touched: nobody's may be gone.
 */
static void call(struct gf_pool *pool, unsigned most, unsigned helpers)
{
    __atomic_fetch_add(&pool->bell, 1, __ATOMIC_SEQ_CST);
    const unsigned wanted = wanted_of(pool, most, helpers);
    if (wanted)
        __atomic_fetch_sub(&pool->sleepers, gf_futex_wake(&pool->bell, wanted), __ATOMIC_SEQ_CST);
}

/* Once a job that nobody owns is in the ring it is touched no more: it may be done, and another's. */
void gf_pool_open(struct gf_pool *pool, struct gf_job *job, uint64_t limit)
{
    const unsigned most = job->most, helpers = helpers_for(pool, job, job->total ? job->total : limit);

    job->rights = pool->has_rights ? gf_rights_get() : 0;
    job->bell = job->waiting = job->inside = 0;
    job->limit = limit;
    job->failed = GF_PIECE_NONE;
    job->next = 0;
    pthread_mutex_lock(&pool->lock);
    if (add_jobs(pool, 1) > 1) {
        job->after = pool->cursor;
        job->before = pool->cursor->before;
        job->before->after = job->after->before = job;
    } else {
        pool->cursor = job->before = job->after = job;
    }
    pthread_mutex_unlock(&pool->lock);
    call(pool, most, helpers);
}

void gf_pool_raise(struct gf_pool *pool, struct gf_job *job, uint64_t limit)
{
    const uint64_t more = limit - job->limit;
    __atomic_store_n(&job->limit, limit, __ATOMIC_SEQ_CST);
    call(pool, job->most, helpers_for(pool, job, more));
}

void gf_pool_ring(struct gf_job *job)
{
    __atomic_fetch_add(&job->bell, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&job->waiting, __ATOMIC_SEQ_CST))
        gf_futex_wake(&job->bell, 1);
}

uint32_t gf_pool_bell(const struct gf_job *job)
{
    return __atomic_load_n(&job->bell, __ATOMIC_SEQ_CST);
}

/* Spins while the word has that value, for a while; false when it still has. */
static bool changes(const uint32_t *word, uint32_t seen)
{
    const uint64_t until = gf_now_ns() + GF_TUNE_CALLER_SPIN_NS;
    do {
        for (unsigned i = 0; i < 16; i++)
            gf_relax();
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != seen)
            return true;
    } while (gf_now_ns() < until);
    return false;
}

void gf_pool_wait(struct gf_job *job, uint32_t seen)
{
    if (gf_pool_bell(job) != seen || changes(&job->bell, seen))
        return;
    __atomic_store_n(&job->waiting, 1, __ATOMIC_SEQ_CST);
    while (gf_pool_bell(job) == seen)
        gf_futex_wait(&job->bell, seen);
    __atomic_store_n(&job->waiting, 0, __ATOMIC_RELAXED);
}

uint64_t gf_pool_close(struct gf_pool *pool, struct gf_job *job)
{
    uint32_t inside;

    __atomic_store_n(&job->limit, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&pool->lock);
    take_out(pool, job);
    pthread_mutex_unlock(&pool->lock);
    while ((inside = __atomic_load_n(&job->inside, __ATOMIC_ACQUIRE)) != 0)
        if (!changes(&job->inside, inside))
            gf_futex_wait(&job->inside, inside);
    return job->failed;
}

uint64_t gf_pool_run(struct gf_pool *pool, struct gf_job *job, uint64_t pieces)
{
    gf_pool_open(pool, job, pieces);
    while (gf_pool_help(job))
        ;
    return gf_pool_close(pool, job);
}

bool gf_pool_finished(const struct gf_job *job)
{
    return !unclaimed(job) && __atomic_load_n(&job->inside, __ATOMIC_ACQUIRE) == 0;
}
