/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/line_slots.h"

#define INTERVAL_NS UINT64_C(10000000)
#define BURST_NS (500 * INTERVAL_NS)
#define SIZE_MOST (UINT64_C(64) << 20)
#define STUCK_MS 10000
#define HANGS_MS 1000
#define MS UINT64_C(1000000)

/*
 * A mark is one word, so that one compare-and-swap changes all its parts. From the lowest bit, it
 * contains the state of the slot, the id of the thread that set the mark, and the time in
 * milliseconds.
 */
enum { slot_free, slot_busy, slot_ready, slot_taken };
#define STATE_BITS 2
#define THREAD_BITS 22 /* the kernel's PID_MAX_LIMIT */

static __thread uint64_t held_mark; /* the mark of the slot that this thread holds */

static uint64_t mark_of(unsigned state, uint64_t now)
{
    const uint64_t thread = (uint64_t)syscall(SYS_gettid);

    return (now / MS << THREAD_BITS | thread) << STATE_BITS | state;
}

static unsigned state_of(uint64_t mark)
{
    return mark & ((1U << STATE_BITS) - 1);
}

static pid_t thread_of(uint64_t mark)
{
    return (pid_t)(mark >> STATE_BITS & ((1U << THREAD_BITS) - 1));
}

/*
 * The age of a mark in milliseconds. Negative if another thread marked the slot after `now` was
 * read.
 */
static int64_t age_of(uint64_t mark, uint64_t now)
{
    return (int64_t)(now / MS - (mark >> (STATE_BITS + THREAD_BITS)));
}

static bool change_mark(struct gf_line *line, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(&line->slot->mark, &from, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/*
 * Whether the slot is stuck because its holder has ended. A holder that is paused or waits for the
 * disk keeps its slot, because it may continue to change the line. If the holder is in another PID
 * namespace, its id may belong to a different thread here, and the answer may be wrong.
 */
static bool is_abandoned(uint64_t mark, uint64_t now)
{
    gf_keep_errno();
    const bool is_held = state_of(mark) == slot_busy || state_of(mark) == slot_taken;

    return is_held && age_of(mark, now) > STUCK_MS && syscall(SYS_tkill, thread_of(mark), 0) != 0 &&
           errno == ESRCH;
}

struct gf_line *gf_line_slots_claim(struct gf_line_slots *slots, uint64_t now)
{
    held_mark = mark_of(slot_busy, now);
    for (unsigned abandoned = 0; abandoned < 2; abandoned++)
        for (unsigned i = 0; i < slots->count; i++) {
            struct gf_line *line = &slots->line[i];
            const uint64_t mark = __atomic_load_n(&line->slot->mark, __ATOMIC_RELAXED);
            if ((abandoned ? !is_abandoned(mark, now) : state_of(mark) != slot_free) ||
                !change_mark(line, mark, held_mark))
                continue;
            if (abandoned)
                gf_line_slots_count_dropped(slots);
            return line;
        }
    return NULL;
}

bool gf_line_slots_ready(struct gf_line_slots *slots, struct gf_line *line, uint64_t now)
{
    struct gf_line_slot *const slot = line->slot;

    line->message.length = line->json.at;
    slot->message = line->message;
    __atomic_store_n(&slot->number, __atomic_fetch_add(&slots->sums->number, 1, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    return change_mark(line, held_mark, mark_of(slot_ready, now));
}

void gf_line_slots_discard(struct gf_line *line)
{
    change_mark(line, held_mark, slot_free);
}

void gf_line_slots_read(const struct gf_line *line, struct gf_line_message *ret)
{
    memcpy(ret, &line->slot->message, sizeof(*ret));
    __asm__ volatile("" ::: "memory"); /* another process may change what the slot has */
    ret->length = gf_min(ret->length, sizeof(line->slot->text));
    if (ret->finding.cause >= GF_CAUSE_COUNT || ret->finding.without_pause >= GF_CAUSE_COUNT)
        ret->finding.cause = ret->finding.without_pause = gf_cause_unknown;
    ret->finding.text[sizeof(ret->finding.text) - 1] = '\0';
}

struct gf_line *gf_line_slots_take(struct gf_line_slots *slots, uint64_t now, uint64_t *ret_mark)
{
    struct gf_line *first;
    uint64_t first_mark = 0, first_number = 0;

    do {
        first = NULL;
        for (unsigned i = 0; i < slots->count; i++) {
            struct gf_line *line = &slots->line[i];
            const uint64_t mark = __atomic_load_n(&line->slot->mark, __ATOMIC_SEQ_CST);
            const uint64_t number = __atomic_load_n(&line->slot->number, __ATOMIC_RELAXED);
            if (state_of(mark) == slot_ready && (!first || number < first_number)) {
                first = line;
                first_mark = mark;
                first_number = number;
            }
        }
        *ret_mark = mark_of(slot_taken, now);
    } while (first && !change_mark(first, first_mark, *ret_mark));
    return first;
}

void gf_line_slots_release(struct gf_line *line, uint64_t mark)
{
    change_mark(line, mark, slot_free);
}

bool gf_line_slots_overdue(const struct gf_line_slots *slots, uint64_t now, uint64_t late_ns)
{
    bool late = false;

    for (unsigned i = 0; i < slots->count; i++) {
        const uint64_t mark = __atomic_load_n(&slots->line[i].slot->mark, __ATOMIC_RELAXED);
        if (state_of(mark) == slot_taken && !is_abandoned(mark, now))
            return false;
        late =
            late || (state_of(mark) == slot_ready && age_of(mark, now) > (int64_t)(late_ns / MS));
    }
    return late;
}

bool gf_line_slots_hang(const struct gf_line_slots *slots, uint64_t now)
{
    gf_keep_errno();

    for (unsigned i = 0; i < slots->count; i++) {
        const uint64_t mark = __atomic_load_n(&slots->line[i].slot->mark, __ATOMIC_SEQ_CST);
        if (state_of(mark) == slot_taken && age_of(mark, now) > HANGS_MS &&
            syscall(SYS_tgkill, getpid(), thread_of(mark), 0) == 0)
            return true;
    }
    return false;
}

static bool has_state(const struct gf_line_slots *slots, unsigned state)
{
    for (unsigned i = 0; i < slots->count; i++)
        if (state_of(__atomic_load_n(&slots->line[i].slot->mark, __ATOMIC_SEQ_CST)) == state)
            return true;
    return false;
}

bool gf_line_slots_writing(const struct gf_line_slots *slots)
{
    return has_state(slots, slot_taken);
}

bool gf_line_slots_unwritten(const struct gf_line_slots *slots)
{
    return has_state(slots, slot_ready) || has_state(slots, slot_taken);
}

bool gf_line_slots_full(const struct gf_line_slots *slots)
{
    return __atomic_load_n(&slots->sums->written, __ATOMIC_RELAXED) > SIZE_MOST;
}

bool gf_line_slots_within_rate(struct gf_line_slots *slots, uint64_t now)
{
    uint64_t due = __atomic_load_n(&slots->sums->due_ns, __ATOMIC_RELAXED), next;

    do {
        if (due > now + BURST_NS)
            return false;
        next = gf_max(due, now) + INTERVAL_NS;
    } while (!__atomic_compare_exchange_n(&slots->sums->due_ns, &due, next, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

void gf_line_slots_count_dropped(struct gf_line_slots *slots)
{
    __atomic_fetch_add(&slots->sums->dropped, 1, __ATOMIC_RELAXED);
}

uint64_t gf_line_slots_report(struct gf_line_slots *slots)
{
    uint64_t reported = __atomic_load_n(&slots->sums->reported, __ATOMIC_RELAXED), all;

    do
        all = __atomic_load_n(&slots->sums->dropped, __ATOMIC_RELAXED);
    while (all > reported &&
           !__atomic_compare_exchange_n(&slots->sums->reported, &reported, all, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return all > reported ? all - reported : 0;
}

void gf_line_slots_unreport(struct gf_line_slots *slots, uint64_t count)
{
    __atomic_fetch_sub(&slots->sums->reported, count, __ATOMIC_RELAXED);
}
