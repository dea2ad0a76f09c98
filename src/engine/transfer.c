/* SPDX-License-Identifier: Apache-2.0 */
/* What src/transfer needs to know of this process. */
#include "engine/state.h"

#include "base/fmt.h"
#include "base/log.h"
#include "host/tasks.h"
#include "place/locate.h"
#include "transfer/prepare.h"
#include "transfer/transfer.h"

#include <string.h>

static const struct gf_transfer_ops *ops; /* NULL: nothing of it is wanted */

/* The one node that is nearest to the device; -1. */
static int nearest(CUdevice device)
{
    const struct gf_machine *machine = gf_process.machine;
    struct gf_nodes nodes = {0};
    struct gf_gpu gpu;
    const char *source;

    if (!machine)
        return -1;
    if (machine->node_count == 1)
        return (int)machine->nodes[0].id;
    gf_gpu_read(device, true, &gpu);
    if (!gf_locate(machine, &gpu, &nodes, &source) || gf_set_count(&nodes) != 1)
        return -1;
    return gf_set_next(&nodes, 0);
}

/* What the program itself uses: ranks that share a node share its cores. */
static const struct gf_cpus *own_cpus(void)
{
    const struct gf_placement *placement = gf_placement();
    return placement && placement->bound ? &placement->cpus : &gf_process.facts.start;
}

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    const int node = nearest(device);
    const struct gf_node *known =
        node < 0 ? NULL : gf_machine_node(gf_process.machine, (unsigned)node);

    *ret_cpus = *own_cpus();
    if (known && gf_set_meet(&known->cpus, ret_cpus))
        gf_set_and(ret_cpus, ret_cpus, &known->cpus);
    return node;
}

/* Rings change now and then: for the log alone. */
static void tell(enum gf_transfer_event event, const char *text)
{
    gf_output_note(event == gf_transfer_off ? gf_report_left : gf_report_ring, text);
}

static void ask(void)
{
    __atomic_store_n(&gf_process.asked, true, __ATOMIC_RELEASE);
    sem_post(&gf_process.wake);
}

void gf_transfers_prepare(void)
{
    if (__atomic_load_n(&gf_process.asked, __ATOMIC_RELAXED) &&
        __atomic_exchange_n(&gf_process.asked, false, __ATOMIC_ACQUIRE) && !gf_dead())
        gf_prepare();
}

/* compute-sanitizer: cuInit, which has just returned, has loaded its library. */
static bool is_checked(void)
{
    uintptr_t at;
    return gf_tasks_find_map(0, "libsanitizer-", &at) == 0;
}

const struct gf_transfer_ops *gf_transfers(void)
{
    const struct gf_door *door = gf_process.door;
    const struct gf_transfer_setup setup = {.options = door->options,
                                            .cuda = door->cuda,
                                            .cpu_quota = gf_process.facts.cpu_quota,
                                            .device_node = device_node,
                                            .ask = ask,
                                            .tell = tell};

    /*
     * A profiler of kernels plays them, or what it has seen of calls, over and over, and a checker of
     * memory reports what is ours as the program's. What they are to see are the program's own copies
     * and blocks, and there is no time to be saved.
     */
    if (door->stand_in)
        gf_info("copies and pinned memory are left to the driver: %s has its place", door->stand_in);
    else if (is_checked())
        gf_info("copies and pinned memory are left to the driver: the process runs under "
                "compute-sanitizer");
    else
        ops = gf_transfer_start(&setup);
    return ops;
}

void gf_transfers_read(struct gf_transfer_report *ret)
{
    ret->known = ops != NULL;
    if (!ops)
        return;
    ret->least = ops->copy_least;
    gf_stats_read(&ret->copies);
    gf_transfer_state(&ret->state);
    gf_pinned_read(&ret->pinned.stats);
    gf_large_held(ret->pinned.held);
}

static void add_copies(char *buf, size_t size, const char *what, const struct gf_tally_copy *copies)
{
    const size_t used = strlen(buf);
    if (copies->calls)
        gf_fmt(buf + used, size - used, "; %s %llu (%llu bytes)", what,
               (unsigned long long)copies->calls, (unsigned long long)copies->bytes);
}

static void add_direction(char *buf, size_t size, const struct gf_transfer_stats *stats,
                          enum gf_direction direction)
{
    struct gf_tally_copy sum;

    gf_transfer_report_staged(stats, direction, &sum);
    add_copies(buf, size, "staged", &sum);
    add_copies(buf, size, "rest", &stats->rest[direction]);
    for (unsigned why = 0; why < gf_forward_count; why++) {
        gf_transfer_report_why(stats, direction, why, &sum);
        add_copies(buf, size, gf_forward_name(why), &sum);
    }
}

void gf_transfers_say(void)
{
    struct gf_transfer_stats stats;
    struct gf_transfer_state state;
    char h2d[512] = "", d2h[512] = "";

    if (!gf_log_wants(GF_LOG_DEBUG))
        return;
    gf_stats_read(&stats);
    gf_transfer_state(&state);
    add_direction(h2d, sizeof(h2d), &stats, gf_direction_h2d);
    add_direction(d2h, sizeof(d2h), &stats, gf_direction_d2h);
    gf_debug("copies to the GPU%s", *h2d ? h2d : ": none");
    gf_debug("copies from the GPU%s", *d2h ? d2h : ": none");
    gf_debug("copies: ring %llu of %llu bytes, %u helpers, %llu waits for the own stream%s%s",
             (unsigned long long)state.ring_bytes, (unsigned long long)state.ring_limit,
             state.helpers, (unsigned long long)stats.stream_waits, state.off ? "; off: " : "",
             state.off ? state.off : "");
}
