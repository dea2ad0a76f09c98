/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/summary_gpu_time.h"

#include "base/textbuf.h"

#define CAUSES_SAID 3u
#define SAMPLES_LEAST 20u /* with fewer, a share means nothing */

static const char *words_of(enum gf_host_cause cause)
{
    static const char *const words[] = {
        [gf_host_paused] = "the process was paused",
        [gf_host_throttled] = "throttled by the CPU quota",
        [gf_host_preempted] = "the submitting thread had no CPU",
        [gf_host_driver] = "allocating or freeing in the driver",
        [gf_host_gpu_wait] = "returning from a wait for the GPU",
        [gf_host_gil] = "waiting for Python's lock",
        [gf_host_data] = "waiting for data",
        [gf_host_file] = "waiting for a file",
        [gf_host_network] = "waiting for the network",
        [gf_host_waiting] = "the submitting thread slept or waited for a lock",
        [gf_host_launches] = "work too short for the launch rate",
        [gf_host_computing] = "the submitting thread computed",
        [gf_host_other] = "cause unknown",
    };
    return words[cause];
}

static unsigned permille(uint64_t part, uint64_t whole)
{
    return whole ? (unsigned)((double)part * 1000 / (double)whole + 0.5) : 0;
}

static void say_share(struct gf_textbuf *out, const char *before, uint64_t part, uint64_t whole)
{
    const unsigned share = permille(part, whole);
    gf_say(out, "%s%u.%u %%", before, share / 10, share % 10);
}

/* The largest causes first. */
static void say_causes(struct gf_textbuf *out, const struct gf_gpu_time_device *device,
                       uint64_t total)
{
    bool said[GF_HOST_CAUSE_COUNT] = {false};

    for (unsigned count = 0; count < CAUSES_SAID; count++) {
        unsigned most = GF_HOST_CAUSE_COUNT;
        for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
            if (!said[i] &&
                (most == GF_HOST_CAUSE_COUNT || device->cause_ns[i] > device->cause_ns[most]))
                most = i;
        if (permille(device->cause_ns[most], total) == 0)
            break;
        said[most] = true;
        gf_say(out, "%s%s", count ? ", " : " (", words_of((enum gf_host_cause)most));
        say_share(out, " ", device->cause_ns[most], total);
    }
    if (out->at && permille(device->state_ns[gf_gpu_empty], total))
        gf_say(out, ")");
}

static void say_device(struct gf_textbuf *out, unsigned number, bool several,
                       const struct gf_gpu_time_device *device)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < GF_GPU_STATE_COUNT; i++)
        total += device->state_ns[i];
    if (several)
        gf_say(out, "%sGPU %u", out->at ? "; " : "", number);
    else
        gf_say(out, "the GPU");
    say_share(out, " had nothing to do ", device->state_ns[gf_gpu_empty], total);
    gf_say(out, " of %llu.%llu s", (unsigned long long)(total / 1000000000),
           (unsigned long long)(total / 100000000 % 10));
    say_causes(out, device, total);
    if (permille(device->state_ns[gf_gpu_copying], total))
        say_share(out, "; only copies ", device->state_ns[gf_gpu_copying], total);
    if (permille(device->state_ns[gf_gpu_communicating], total))
        say_share(out, "; only communication ", device->state_ns[gf_gpu_communicating], total);
    if (permille(device->state_ns[gf_gpu_unknown], total))
        say_share(out, "; not known ", device->state_ns[gf_gpu_unknown], total);
}

void gf_summary_gpu_time(const struct gf_gpu_time *time, char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};
    unsigned used = 0;

    *buf = '\0';
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        used += time->device[i].used && time->device[i].samples >= SAMPLES_LEAST;
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        if (time->device[i].used && time->device[i].samples >= SAMPLES_LEAST)
            say_device(&out, i, used > 1, &time->device[i]);
}
