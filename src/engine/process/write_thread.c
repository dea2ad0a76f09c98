/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/write_thread.h"

#include "os/permit.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#define WRITE_STACK ((size_t)1 << 20) /* `ulimit -s` may be smaller */
#define WAITS 2000u                   /* of 1 ms each */

bool gf_write_job_busy(const struct gf_write_job *job)
{
    return gf_load_acquire(&job->busy);
}

static void *run_job(void *closure)
{
    struct gf_write_job *job = closure;

    job->write();
    gf_store_release(&job->busy, false);
    return NULL;
}

static void *run_named_job(void *closure)
{
    prctl(PR_SET_NAME, "gpufeed-write");
    return run_job(closure);
}

static bool start_thread(struct gf_write_job *job)
{
    pthread_attr_t attr;
    pthread_t thread;

    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, WRITE_STACK);
    const bool started = pthread_create(&thread, &attr, run_named_job, job) == 0;
    pthread_attr_destroy(&attr);
    return started;
}

void gf_write_job_start(struct gf_write_job *job)
{
    gf_store_relaxed(&job->busy, true);
    if (gf_permit_sealed() || !start_thread(job))
        run_job(job);
}

bool gf_write_job_await(const struct gf_write_job *job)
{
    static const struct timespec moment = {.tv_nsec = 1000000};

    for (unsigned i = 0; i < WAITS && gf_write_job_busy(job); i++)
        nanosleep(&moment, NULL);
    return !gf_write_job_busy(job);
}
