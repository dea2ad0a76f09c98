/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves what the heap held before the binding to the GPU's node: on the engine's own thread, in
 * pieces of at most 2 MiB (one mbind of 128 MiB stops the program's page faults for a second), a
 * tenth of the time at most, and not for ever.
 */
#include "engine/state.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)2 << 20)
#define WORK_NS UINT64_C(3000000000) /* of mbind, all in all */
#define REST 9                       /* times as long as the work */
#define RANGES_MAX 65536

static struct {
    unsigned epoch; /* of the placement that it is for */
    struct gf_range *ranges;
    size_t count, at;
    size_t offset;
    uint64_t spent_ns;
} job;

size_t gf_heap_ranges(struct gf_range **ret)
{
    const struct gf_heap_ops *heap = gf_process.door->heap;
    /* The heap may grow while it is asked; more than it has now is no harm. */
    const size_t room = heap->ranges ? gf_min(heap->ranges(NULL, 0), (size_t)RANGES_MAX) + 16 : 1;
    *ret = calloc(room, sizeof(**ret));
    return *ret && heap->ranges ? gf_min(heap->ranges(*ret, room), room) : 0;
}

static void finish(struct gf_report_migration *report)
{
    struct gf_locality now;

    gf_locality_pages("/proc/self/numa_maps", job.ranges, job.count, &now);
    report->after = now.heap;
    report->done = true;
    free(job.ranges);
    job.ranges = NULL;
}

static bool begin(const struct gf_placement *placement, struct gf_report_migration *report)
{
    struct gf_locality now;

    job.epoch = placement->epoch;
    free(job.ranges);
    job.ranges = NULL;
    job.at = job.offset = job.spent_ns = 0;
    if (!placement->bound || placement->policy == MPOL_DEFAULT ||
        !gf_process.door->heap->ranges)
        return false;
    job.count = gf_heap_ranges(&job.ranges);
    if (!job.ranges)
        return false;
    gf_locality_pages("/proc/self/numa_maps", job.ranges, job.count, &now);
    *report = (struct gf_report_migration){.wanted = true, .before = now.heap};
    return true;
}

static int set_policy(const struct gf_range *piece, int policy, const struct gf_nodes *nodes,
                      unsigned flags)
{
    return (int)syscall(SYS_mbind, piece->start, piece->size, policy, nodes->word,
                        (unsigned long)GF_NODES_MAX + 1, flags);
}

/*
 * Beside device memory the policy allows all nodes with CPUs, so that by itself it moves nothing
 * from the far ones: the GPU's own node is asked for while moving.
 */
static int move(const struct gf_placement *placement, const struct gf_range *piece)
{
    struct gf_nodes own = {0};

    if (placement->node < 0 || gf_set_count(&placement->policy_nodes) <= 1)
        return set_policy(piece, placement->policy, &placement->policy_nodes, MPOL_MF_MOVE);
    gf_set_add(&own, (unsigned)placement->node);
    const int moved = set_policy(piece, MPOL_PREFERRED, &own, MPOL_MF_MOVE);
    const int set = set_policy(piece, placement->policy, &placement->policy_nodes, 0);
    return moved ? moved : set;
}

static uint64_t move_piece(const struct gf_placement *placement, struct gf_report_migration *report)
{
    const struct gf_range *range = &job.ranges[job.at];
    const size_t length = gf_min(PIECE, range->size - job.offset);
    const struct gf_range piece = {range->start + job.offset, length};
    const uint64_t begun = gf_now_ns();

    if (move(placement, &piece) != 0) {
        report->refused++;
        report->error = errno;
    }
    report->calls++;
    report->bytes += length;
    job.offset += length;
    if (job.offset >= range->size) {
        job.offset = 0;
        job.at++;
    }
    return gf_now_ns() - begun;
}

static void rest(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

bool gf_migrate_step(uint64_t deadline_ns)
{
    const struct gf_placement *placement = gf_placement();
    struct gf_report_migration *report = &gf_process.report.migration;

    if (!placement)
        return false;
    if (placement->epoch != job.epoch && !begin(placement, report))
        return false;
    if (!job.ranges)
        return false;
    while (job.at < job.count && job.spent_ns < WORK_NS) {
        const uint64_t spent = move_piece(placement, report);
        job.spent_ns += spent;
        gf_process.report.costs.migrate_us += spent / 1000;
        if (gf_now_ns() + spent * REST >= deadline_ns || gf_dead())
            return true;
        rest(spent * REST);
        gf_transfers_prepare();
    }
    finish(report);
    return false;
}
