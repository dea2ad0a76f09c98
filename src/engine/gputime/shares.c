/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/shares.h"

const char *gf_gpu_state_name(enum gf_gpu_state state)
{
    static const char *const names[] = {
#define GF_GPU_STATE(name) #name,
        GF_GPU_STATES(GF_GPU_STATE)
#undef GF_GPU_STATE
    };
    return names[state];
}

const char *gf_host_cause_name(enum gf_host_cause cause)
{
    static const char *const names[] = {
#define GF_HOST_CAUSE(name) #name,
        GF_HOST_CAUSES(GF_HOST_CAUSE)
#undef GF_HOST_CAUSE
    };
    return names[cause];
}

static void add_ns(_Atomic uint64_t *sum, uint64_t ns)
{
    gf_store_relaxed(sum, gf_load_relaxed(sum) + ns);
}

static void add_state(struct gf_gpu_shares *shares, enum gf_gpu_state state,
                      enum gf_host_cause cause, uint64_t ns)
{
    add_ns(&shares->state_ns[state], ns);
    if (state == gf_gpu_empty)
        add_ns(&shares->cause_ns[cause], ns);
}

/*
 * Adds a sample. If the sample is late, the state in the interval before it is unknown. But if
 * nothing was submitted in the interval (quiet), and the GPU was empty before and after it, the GPU
 * was empty all the time.
 */
void gf_gpu_shares_add(struct gf_gpu_shares *shares, const struct gf_gpu_sample *sample)
{
    const struct gf_gpu_sample last = shares->last;
    const uint64_t ns = sample->at_ns - last.at_ns;

    shares->last = *sample;
    if (!last.at_ns)
        return;
    if (sample->quiet && sample->state == gf_gpu_empty && last.state == gf_gpu_empty) {
        add_ns(&shares->exact_ns, ns);
        add_state(shares, gf_gpu_empty, sample->late ? sample->cause : last.cause, ns / 2);
        add_state(shares, gf_gpu_empty, sample->cause, ns - ns / 2);
    } else if (sample->late) {
        add_state(shares, gf_gpu_unknown, gf_host_other, ns);
        if (sample->cause < GF_LATE_CAUSES)
            add_ns(&shares->late_ns[sample->cause], ns);
    } else {
        add_state(shares, last.state, last.cause, ns / 2);
        add_state(shares, sample->state, sample->cause, ns - ns / 2);
    }
    add_ns(&shares->samples, 1);
}
