/* SPDX-License-Identifier: Apache-2.0 */
#include "place/choice.h"

static bool in_range(int device)
{
    return device >= 0 && device < GF_CHOICE_DEVICES;
}

static uint64_t load(const uint64_t *value)
{
    return __atomic_load_n(value, __ATOMIC_RELAXED);
}

bool gf_choice_context(struct gf_choice *choice, int device)
{
    int none = 0;

    if (!in_range(device))
        return false;
    __atomic_fetch_or(&choice->contexts, UINT64_C(1) << device, __ATOMIC_RELAXED);
    return __atomic_compare_exchange_n(&choice->first, &none, device + 1, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static bool crossed(uint64_t after, uint64_t added, uint64_t line)
{
    return after >= line && after - added < line;
}

bool gf_choice_memory(struct gf_choice *choice, int device, uint64_t bytes)
{
    if (!in_range(device))
        return false;
    /* Every further share of the line is a new occasion: by then another device may have less. */
    const uint64_t held = __atomic_add_fetch(&choice->bytes[device], bytes, __ATOMIC_RELAXED);
    const uint64_t total = __atomic_add_fetch(&choice->total, bytes, __ATOMIC_RELAXED);
    return crossed(held, bytes, GF_CHOICE_BYTES) || crossed(total, bytes, GF_CHOICE_BYTES);
}

bool gf_choice_preset(struct gf_choice *choice, int visible, int local_rank, int local_size)
{
    if (visible == 1) {
        choice->chosen = 1;
        choice->why = gf_choice_why_only;
        choice->settled = true;
        return true;
    }
    /* Only where each rank has a GPU of its own: with other numbers the mapping is the program's. */
    if (local_rank >= 0 && local_size == visible && local_rank < visible && in_range(local_rank)) {
        choice->chosen = UINT64_C(1) << local_rank;
        choice->why = gf_choice_why_rank;
        return true;
    }
    return false;
}

static int most_memory(const struct gf_choice *choice)
{
    int best = -1;
    uint64_t most = 0;
    for (int device = 0; device < GF_CHOICE_DEVICES; device++) {
        const uint64_t held = load(&choice->bytes[device]);
        const bool incumbent = choice->chosen >> device & 1;
        if (held > most || (held == most && held && incumbent)) {
            best = device;
            most = held;
        }
    }
    return best;
}

/* Devices that hold enough to count, and not a trifle beside the others. */
static uint64_t substantial(const struct gf_choice *choice)
{
    uint64_t devices = 0;
    for (int device = 0; device < GF_CHOICE_DEVICES; device++) {
        const uint64_t held = load(&choice->bytes[device]);
        if (held >= GF_CHOICE_BYTES && held >= load(&choice->total) / 16)
            devices |= UINT64_C(1) << device;
    }
    return devices;
}

bool gf_choice_decide(struct gf_choice *choice, bool impatient)
{
    const uint64_t before = choice->chosen;
    const int first = __atomic_load_n(&choice->first, __ATOMIC_ACQUIRE) - 1;
    const uint64_t enough = impatient ? GF_CHOICE_LITTLE : GF_CHOICE_BYTES;

    if (choice->settled) {
        choice->chosen |= substantial(choice);
    } else if (load(&choice->total) >= enough) {
        choice->chosen = UINT64_C(1) << most_memory(choice) | substantial(choice);
        choice->why = gf_choice_why_memory;
        choice->settled = true;
    } else if (!choice->chosen && first >= 0) {
        choice->chosen = UINT64_C(1) << first;
        choice->why = gf_choice_why_context;
    }
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
    };
    return text[why];
}
