/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/slots.h"

#define INTERVAL_NS UINT64_C(10000000)
#define BURST_NS (500 * INTERVAL_NS)
#define SIZE_MOST (UINT64_C(64) << 20)
#define STUCK_NS INT64_C(10000000000)

/* The lower bits of a mark; above them is since when. One word, so that who takes it takes it as it was. */
enum { slot_free, slot_busy, slot_ready, slot_taken, SLOT_STATES };

static __thread uint64_t mine; /* the mark that this thread gave to the slot it holds */

static uint64_t mark_of(unsigned state, uint64_t now)
{
    return now * SLOT_STATES | state;
}

static unsigned state_of(uint64_t mark)
{
    return mark % SLOT_STATES;
}

/* Less than 0: marked by somebody who looked at the clock later. */
static int64_t age_of(uint64_t mark, uint64_t now)
{
    return (int64_t)(now - mark / SLOT_STATES);
}

static bool pass(struct gf_line *line, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(&line->mark, &from, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

static bool is_stuck(uint64_t mark, uint64_t now)
{
    const unsigned state = state_of(mark);
    return (state == slot_busy || state == slot_taken) && age_of(mark, now) > STUCK_NS;
}

struct gf_line *gf_slots_claim(struct gf_slots *slots, uint64_t now)
{
    mine = mark_of(slot_busy, now);
    for (unsigned stuck = 0; stuck < 2; stuck++)
        for (unsigned i = 0; i < slots->count; i++) {
            struct gf_line *line = &slots->line[i];
            const uint64_t mark = __atomic_load_n(&line->mark, __ATOMIC_RELAXED);
            if ((stuck ? !is_stuck(mark, now) : state_of(mark) != slot_free) ||
                !pass(line, mark, mine))
                continue;
            if (stuck)
                gf_slots_leave_out(slots);
            return line;
        }
    return NULL;
}

bool gf_slots_ready(struct gf_slots *slots, struct gf_line *line, uint64_t now)
{
    __atomic_store_n(&line->number, __atomic_fetch_add(&slots->number, 1, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    return pass(line, mine, mark_of(slot_ready, now));
}

bool gf_slots_drop(struct gf_line *line)
{
    return pass(line, mine, slot_free);
}

struct gf_line *gf_slots_take(struct gf_slots *slots, uint64_t now, uint64_t *ret_mark)
{
    struct gf_line *first;
    uint64_t first_mark = 0, first_number = 0;

    do {
        first = NULL;
        for (unsigned i = 0; i < slots->count; i++) {
            struct gf_line *line = &slots->line[i];
            const uint64_t mark = __atomic_load_n(&line->mark, __ATOMIC_ACQUIRE);
            const uint64_t number = __atomic_load_n(&line->number, __ATOMIC_RELAXED);
            if (state_of(mark) == slot_ready && (!first || number < first_number)) {
                first = line;
                first_mark = mark;
                first_number = number;
            }
        }
        *ret_mark = mark_of(slot_taken, now);
    } while (first && !pass(first, first_mark, *ret_mark));
    return first;
}

void gf_slots_written(struct gf_line *line, uint64_t mark)
{
    pass(line, mark, slot_free);
}

bool gf_slots_neglected(const struct gf_slots *slots, uint64_t now, uint64_t late_ns)
{
    bool late = false;

    for (unsigned i = 0; i < slots->count; i++) {
        const uint64_t mark = __atomic_load_n(&slots->line[i].mark, __ATOMIC_RELAXED);
        if (state_of(mark) == slot_taken && !is_stuck(mark, now))
            return false;
        late = late || (state_of(mark) == slot_ready && age_of(mark, now) > (int64_t)late_ns);
    }
    return late;
}

static bool has(const struct gf_slots *slots, unsigned state)
{
    for (unsigned i = 0; i < slots->count; i++)
        if (state_of(__atomic_load_n(&slots->line[i].mark, __ATOMIC_SEQ_CST)) == state)
            return true;
    return false;
}

bool gf_slots_in_hand(const struct gf_slots *slots)
{
    return has(slots, slot_taken);
}

bool gf_slots_unwritten(const struct gf_slots *slots)
{
    return has(slots, slot_ready) || has(slots, slot_taken);
}

bool gf_slots_in_time(struct gf_slots *slots, uint64_t now)
{
    uint64_t due = __atomic_load_n(&slots->due_ns, __ATOMIC_RELAXED), next;

    if (__atomic_load_n(&slots->written, __ATOMIC_RELAXED) > SIZE_MOST)
        return false;
    do {
        if (due > now + BURST_NS)
            return false;
        next = gf_max(due, now) + INTERVAL_NS;
    } while (!__atomic_compare_exchange_n(&slots->due_ns, &due, next, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

void gf_slots_leave_out(struct gf_slots *slots)
{
    __atomic_fetch_add(&slots->left_out, 1, __ATOMIC_RELAXED);
}

uint64_t gf_slots_tell(struct gf_slots *slots)
{
    uint64_t told = __atomic_load_n(&slots->told, __ATOMIC_RELAXED), all;

    do
        all = __atomic_load_n(&slots->left_out, __ATOMIC_RELAXED);
    while (all > told && !__atomic_compare_exchange_n(&slots->told, &told, all, true,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return all > told ? all - told : 0;
}

void gf_slots_untell(struct gf_slots *slots, uint64_t count)
{
    __atomic_fetch_sub(&slots->told, count, __ATOMIC_RELAXED);
}
