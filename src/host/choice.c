/* SPDX-License-Identifier: Apache-2.0 */
#include "host/choice.h"

static bool in_range(int device)
{
    return device >= 0 && device < GF_CHOICE_DEVICES;
}

bool gf_choice_context(struct gf_choice *choice, int device)
{
    int none = 0;

    if (!in_range(device))
        return false;
    atomic_fetch_or_explicit(&choice->contexts, UINT64_C(1) << device, memory_order_relaxed);
    return atomic_compare_exchange_strong_explicit(&choice->first, &none, device + 1,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

static bool has_crossed_limit(uint64_t after, uint64_t added)
{
    return after >= GF_CHOICE_BYTES && after - added < GF_CHOICE_BYTES;
}

bool gf_choice_memory(struct gf_choice *choice, int device, uint64_t bytes)
{
    if (!in_range(device))
        return false;
    /* The total settles the choice; the bytes on this device decide whether it joins. */
    const uint64_t held = gf_add_relaxed(&choice->bytes[device], bytes) + bytes;
    const uint64_t total = gf_add_relaxed(&choice->total, bytes) + bytes;
    return has_crossed_limit(held, bytes) || has_crossed_limit(total, bytes);
}

bool gf_choice_preset(struct gf_choice *choice, int visible, int local_rank, int local_size)
{
    if (visible == 1) {
        choice->chosen = 1;
        choice->why = gf_choice_why_only;
        choice->settled = true;
        return true;
    }
    /* With more or fewer local ranks than visible GPUs, the program itself assigns GPUs to ranks. */
    if (local_rank >= 0 && local_size == visible && local_rank < visible && in_range(local_rank)) {
        choice->chosen = UINT64_C(1) << local_rank;
        choice->why = gf_choice_why_rank;
        return true;
    }
    return false;
}

static int device_with_most(const struct gf_choice *choice)
{
    int best = -1;
    uint64_t most = 0;
    for (int device = 0; device < GF_CHOICE_DEVICES; device++) {
        const uint64_t held = gf_load_relaxed(&choice->bytes[device]);
        const bool incumbent = choice->chosen >> device & 1;
        if (held > most || (held == most && held && incumbent)) {
            best = device;
            most = held;
        }
    }
    return best;
}

/*
 * Returns the devices to add to the chosen ones: those that hold at least GF_CHOICE_BYTES, and a
 * sixteenth of all allocated bytes.
 */
static uint64_t joining_devices(const struct gf_choice *choice)
{
    uint64_t devices = 0;
    for (int device = 0; device < GF_CHOICE_DEVICES; device++) {
        const uint64_t held = gf_load_relaxed(&choice->bytes[device]);
        if (held >= GF_CHOICE_BYTES && held >= gf_load_relaxed(&choice->total) / 16)
            devices |= UINT64_C(1) << device;
    }
    return devices;
}

bool gf_choice_decide(struct gf_choice *choice, bool settle)
{
    const uint64_t before = choice->chosen;
    const int first = gf_load_acquire(&choice->first) - 1;
    const uint64_t enough = settle ? GF_CHOICE_LITTLE : GF_CHOICE_BYTES;

    if (choice->settled) {
        choice->chosen |= joining_devices(choice);
    } else if (gf_load_relaxed(&choice->total) >= enough) {
        choice->chosen = UINT64_C(1) << device_with_most(choice) | joining_devices(choice);
        choice->why = gf_choice_why_memory;
        choice->settled = true;
    } else if (!choice->chosen && first >= 0) {
        choice->chosen = UINT64_C(1) << first;
        choice->why = gf_choice_why_context;
    }
    if (choice->settled && choice->chosen & (choice->chosen - 1))
        choice->why = gf_choice_why_several;
    return choice->chosen != before;
}

const char *gf_choice_why_text(enum gf_choice_why why)
{
    static const char *const text[] = {
        [gf_choice_why_none] = "no device yet",
        [gf_choice_why_only] = "the only visible GPU",
        [gf_choice_why_rank] = "the launcher's local rank",
        [gf_choice_why_context] = "first context",
        [gf_choice_why_memory] = "holds most of the memory",
        [gf_choice_why_several] = "hold the memory together",
    };
    return text[why];
}
