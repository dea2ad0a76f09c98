/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/duties.h"

#include "base/fmt.h"
#include "base/log.h"
#include "engine/process/process_state.h"
#include "engine/process/thread_binding.h"
#include "engine/transfer/copy/transfer_ops.h"
#include "engine/transfer/pool.h"
#include "host/gpu.h"
#include "host/locate.h"
#include "host/tasks.h"

static const struct gf_transfer_ops *ops; /* NULL if both copies and pinned memory are off */
static _Atomic bool prepare_wanted;

/*
 * Returns the node nearest to the device; -1 if it is unknown, or if several nodes are equally
 * near.
 */
static int nearest_node(CUdevice device)
{
    const struct gf_machine *machine = gf_process.machine;
    struct gf_nodes nodes = {0};
    struct gf_gpu gpu;
    const char *source;

    if (!machine)
        return -1;
    if (machine->node_count == 1)
        return (int)machine->nodes[0].id;
    gf_gpu_read(gf_process.preload->cuda, device, true, &gpu);
    if (!gf_locate(machine, &gpu, &nodes, &source) || gf_set_count(&nodes) != 1)
        return -1;
    return gf_set_next(&nodes, 0);
}

/*
 * Returns the CPUs that the program may use. Helpers get no other CPUs, because ranks that share a
 * node may have divided its cores.
 */
static const struct gf_cpus *program_cpus(void)
{
    const struct gf_placement *placement = gf_process_placement();
    return placement && placement->bound ? &placement->cpus : &gf_process.facts.start;
}

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    const int node = nearest_node(device);
    const struct gf_node *known =
        node < 0 ? NULL : gf_machine_node(gf_process.machine, (unsigned)node);

    *ret_cpus = *program_cpus();
    if (known && gf_set_meet(&known->cpus, ret_cpus))
        gf_set_and(ret_cpus, ret_cpus, &known->cpus);
    return node;
}

void gf_transfers_follow(void)
{
    struct gf_cpus program, own;

    if (!ops)
        return;
    gf_thread_binding_read_program(&program);
    if (gf_set_empty(&program))
        return;
    gf_pools_follow(&program);
    if (gf_tasks_get_mask(0, &own) == 0 && !gf_set_meet(&own, &program))
        gf_tasks_set_mask(0, &program);
}

static bool is_drivers_thread(void)
{
    return gf_process.preload->thread_class(gettid()) == gf_thread_driver;
}

static void record_event(enum gf_transfer_event event, const char *text)
{
    gf_events_record(event == gf_transfer_off ? gf_report_left : gf_report_ring, text);
}

static void request_prepare(void)
{
    gf_store_release(&prepare_wanted, true);
    sem_post(&gf_process.wake);
}

void gf_transfers_prepare(void)
{
    if (gf_load_relaxed(&prepare_wanted) && gf_exchange_acquire(&prepare_wanted, false) &&
        !gf_process_dead())
        gf_transfer_prepare();
}

const struct gf_transfer_ops *gf_transfers_start(void)
{
    const struct gf_preload *preload = gf_process.preload;
    const struct gf_options *options = preload->options;
    const struct gf_facts *facts = &gf_process.facts;
    const struct gf_transfer_setup setup = {
        .options = options,
        .cuda = preload->cuda,
        .cpu_quota = facts->cpu_quota,
        .rank_cpus =
            options->bind == gf_bind_exclusive
                ? 0
                : gf_ranks_cpus(&facts->rank, &facts->start, &facts->cpuset, facts->cpu_quota),
        .device_node = device_node,
        .user_policy = gf_thread_binding_user_policy,
        .python_frames = preload->python_frames,
        .thread_allocates = preload->heap->share_main,
        .request_prepare = request_prepare,
        .submissions = preload->submissions,
        .submitter = preload->submitter,
        .is_drivers = is_drivers_thread,
        .notify = record_event};

    /*
     * The tool that replaces the driver is a profiler or a memory checker. A profiler of kernels
     * repeats calls, and a memory checker would report the library's buffers as the program's. Both
     * must see the program's own copies and buffers, and speed does not matter while they run.
     */
    if (preload->driver_shim) {
        gf_info("copies and pinned memory are left to the driver: %s is preloaded in the driver's "
                "place",
                preload->driver_shim);
    } else if (gf_process_under_sanitizer()) {
        gf_info("copies and pinned memory are left to the driver: the process runs under "
                "compute-sanitizer");
        gf_log_explain(gf_log_area_copy,
                       "staging is off: the process runs under compute-sanitizer");
    } else {
        ops = gf_transfer_start(&setup);
    }
    return ops;
}

void gf_transfers_read(struct gf_report_transfers *ret)
{
    ret->known = ops != NULL;
    if (!ops)
        return;
    ret->min_bytes = ops->copy_least;
    gf_copy_stats_read(&ret->copies);
    gf_transfer_state(&ret->state);
}

static void add_calls(struct gf_textbuf *text, const char *what, uint64_t calls, uint64_t bytes)
{
    if (calls)
        gf_say(text, "; %s %lu (%lu bytes)", what, calls, bytes);
}

static void print_direction(const char *what, const struct gf_copy_stats *stats,
                            enum gf_direction direction)
{
    char buf[512] = "";
    struct gf_textbuf text = {buf, sizeof(buf), 0};
    struct gf_copy_counts sum = gf_transfer_sums_group(stats, direction, gf_copy_group_staged);

    add_calls(&text, "staged", sum.calls, sum.bytes);
    add_calls(&text, "inaccessible", stats->rest[direction].calls, stats->rest[direction].bytes);
    for (unsigned why = 0; why < gf_bypass_count; why++) {
        sum = gf_transfer_sums_bypassed(stats, direction, why);
        add_calls(&text, gf_bypass_name(why), sum.calls, sum.bytes);
    }
    gf_debug("%s%s", what, *buf ? buf : ": none");
}

static void print_pinned(const struct gf_pinned_stats *stats, const struct gf_transfer_state *state)
{
    char buf[768] = "";
    struct gf_textbuf text = {buf, sizeof(buf), 0};

    add_calls(&text, "large", stats->large_calls, stats->large_bytes);
    add_calls(&text, "small", stats->small_calls, stats->small_bytes);
    for (unsigned why = 0; why < GF_PINNED_REASONS; why++)
        add_calls(&text, gf_pinned_reason_name(why), stats->driver_calls[why],
                  stats->driver_bytes[why]);
    add_calls(&text, "prefaulted before registration", stats->placed_calls, stats->placed_bytes);
    if (!*buf)
        return;
    for (unsigned node = 0; node < GF_NODE_BYTES_UNKNOWN; node++)
        if (state->pinned_held[node])
            gf_say(&text, "; node %u holds %lu bytes", node, state->pinned_held[node]);
    if (state->pinned_held[GF_NODE_BYTES_UNKNOWN])
        gf_say(&text, "; %lu bytes on several or unknown nodes",
               state->pinned_held[GF_NODE_BYTES_UNKNOWN]);
    gf_debug("pinned memory: %s; %lu bytes kept for reuse, released %lu times", buf + strlen("; "),
             state->pinned_kept, stats->trims);
}

void gf_transfers_print(void)
{
    struct gf_copy_stats stats;
    struct gf_transfer_state state;

    if (!gf_log_wants(GF_LOG_DEBUG))
        return;
    gf_copy_stats_read(&stats);
    gf_transfer_state(&state);
    print_pinned(&stats.pinned, &state);
    print_direction("copies to the GPU", &stats, gf_direction_h2d);
    print_direction("copies from the GPU", &stats, gf_direction_d2h);
    gf_debug("copies: staging ring of %lu bytes (limit %lu), %u helpers; %lu copies waited for "
             "their own stream%s%s",
             state.ring_bytes, state.ring_limit, state.helpers, stats.stream_waits,
             state.off ? "; off: " : "", state.off ? state.off : "");
}
