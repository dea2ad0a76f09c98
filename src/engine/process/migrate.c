/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/migrate.h"

#include "base/clock.h"
#include "host/mempolicy.h"
#include "engine/process/process_state.h"
#include "engine/process/transfers.h"

#include <stdlib.h>
#include <time.h>

/*
 * Pages are moved in pieces of this size. One mbind of 128 MiB made page faults of another thread
 * wait for more than a second (bench/NOTES.md).
 */
#define PIECE ((size_t)2 << 20)
#define BUDGET_NS UINT64_C(3000000000) /* largest total time in mbind */
/*
 * The pause after a piece is this many times as long as moving the piece, so pages are moved for a
 * tenth of the time.
 */
#define REST 9

static struct {
    unsigned epoch; /* sequence number of the placement for which pages are moved */
    struct gf_range *ranges;
    size_t count, at;
    size_t offset;
    uint64_t spent_ns;
} job;

static uint64_t count_left(void)
{
    uint64_t bytes = 0;

    for (size_t i = job.at; i < job.count; i++)
        bytes += job.ranges[i].size;
    return bytes - job.offset;
}

static void finish_job(struct gf_report_migration *report)
{
    struct gf_locality now;

    report->left_bytes = count_left();
    report->stopped = report->left_bytes > 0;
    report->done = !report->stopped;
    gf_locality_pages("/proc/self/numa_maps", job.ranges, job.count, &now);
    report->after = now.heap;
    free(job.ranges);
    job.ranges = NULL;
}

static bool begin_job(const struct gf_placement *placement, struct gf_report_migration *report)
{
    struct gf_locality now;

    job.epoch = placement->epoch;
    free(job.ranges);
    job.ranges = NULL;
    job.at = job.offset = job.spent_ns = 0;
    if (!placement->bound || placement->policy == GF_MPOL_DEFAULT ||
        !gf_process.preload->heap->ranges)
        return false;
    job.count = gf_process_heap_ranges(&job.ranges);
    if (!job.ranges)
        return false;
    gf_locality_pages("/proc/self/numa_maps", job.ranges, job.count, &now);
    *report = (struct gf_report_migration){.wanted = true, .before = now.heap};
    return true;
}

/*
 * Moves the pages of a range to the GPU's node. On a machine with device memory, the placement's
 * policy allows all nodes with CPUs, so an mbind with this policy would move no page. There, the
 * range gets a policy that prefers the GPU's node, and after the move the placement's policy.
 */
static int move_range(const struct gf_placement *placement, void *start, size_t size)
{
    struct gf_nodes own = {0};

    if (placement->node < 0 || gf_set_count(&placement->policy_nodes) <= 1)
        return gf_mempolicy_move_range(start, size, placement->policy, &placement->policy_nodes);
    gf_set_add(&own, (unsigned)placement->node);
    const int moved = gf_mempolicy_move_range(start, size, GF_MPOL_PREFERRED, &own);
    const int set =
        gf_mempolicy_set_range(start, size, placement->policy, &placement->policy_nodes);
    return moved ? moved : set;
}

static uint64_t move_piece(const struct gf_placement *placement, struct gf_report_migration *report)
{
    const struct gf_range *range = &job.ranges[job.at];
    const size_t length = gf_min(PIECE, range->size - job.offset);
    const uint64_t start_ns = gf_now_ns();
    const int error = move_range(placement, (void *)(range->start + job.offset), length);

    if (error) {
        report->refused++;
        report->error = -error;
    }
    report->calls++;
    report->bytes += length;
    job.offset += length;
    if (job.offset >= range->size) {
        job.offset = 0;
        job.at++;
    }
    return gf_now_ns() - start_ns;
}

static void pause_for(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

void gf_migrate_step(uint64_t deadline_ns)
{
    const struct gf_placement *placement = gf_process_placement();
    struct gf_report_migration *report = &gf_process.report.migration;

    if (!placement || (placement->epoch != job.epoch && !begin_job(placement, report)) ||
        !job.ranges)
        return;
    while (job.at < job.count && job.spent_ns < BUDGET_NS) {
        const uint64_t spent = move_piece(placement, report);
        job.spent_ns += spent;
        gf_process.report.costs.migrate_us += spent / 1000;
        if (gf_now_ns() + spent * REST >= deadline_ns || gf_process_dead())
            return;
        pause_for(spent * REST);
        gf_transfers_prepare();
    }
    finish_job(report);
}
