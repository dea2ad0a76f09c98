/* SPDX-License-Identifier: Apache-2.0 */
/* How a copy is divided, how many helpers it gets, and which stores write it into the ring. */
#include "unit.h"

#include "engine/transfer/copy/plan.h"
#include "engine/transfer/tuning.h"

#define RING GF_MIB(64)

/* Returns the facts for a copy to the device, alone in its context, on a processor with CLDEMOTE. */
static struct gf_plan_facts h2d(unsigned threads, size_t bytes)
{
    return (struct gf_plan_facts){
        .bytes = bytes, .can_demote = true, .threads = threads, .callers = 1, .ring_bytes = RING};
}

static struct gf_plan chunks(struct gf_plan_facts facts)
{
    struct gf_plan plan;
    gf_plan_chunks(&facts, &plan);
    return plan;
}

static struct gf_plan whole(struct gf_plan_facts facts)
{
    struct gf_plan plan;
    gf_plan_whole(&facts, &plan);
    return plan;
}

static void large_copies_by_many_threads_are_demoted(void **state)
{
    (void)state;
    const struct gf_plan plan = chunks(h2d(12, GF_MIB(16)));
    assert_true(plan.demoted);
    assert_int_equal(plan.helpers, 0);
    assert_int_equal(plan.chunk, GF_MIB(2));
    assert_int_equal(plan.piece, GF_KIB(64));
}

static void others_are_written_past_the_caches(void **state)
{
    (void)state;
    struct gf_plan plan = chunks(h2d(12, GF_MIB(16) - 1));
    assert_false(plan.demoted);
    assert_int_equal(plan.helpers, GF_TUNE_HELPERS_SMALL);
    assert_int_equal(plan.piece, plan.chunk / GF_TUNE_PIECES);

    struct gf_plan_facts facts = h2d(12, GF_MIB(16));
    facts.to_host = true;
    assert_false(chunks(facts).demoted);
    assert_false(whole(h2d(12, GF_MIB(16))).demoted); /* the device reads it later */

    facts = h2d(11, GF_MIB(256));
    facts.threads_by_option = true;
    plan = chunks(facts);
    assert_false(plan.demoted);
    assert_int_equal(plan.helpers, 0); /* no limit: as many as the option permits */
    assert_int_equal(plan.piece, GF_KIB(256));

    facts = h2d(12, GF_MIB(256));
    facts.can_demote = false;
    plan = chunks(facts);
    assert_false(plan.demoted);
    assert_int_equal(plan.helpers, GF_TUNE_HELPERS);
}

/* Each byte is in one chunk, each chunk in whole pieces, and two chunks fit into the ring. */
static void chunks_and_pieces_are_within_their_bounds(void **state)
{
    (void)state;
    for (size_t bytes = GF_KIB(64); bytes <= GF_MIB(512); bytes = bytes * 5 / 4 + 1)
        for (size_t ring = GF_MIB(2); ring <= GF_MIB(64); ring *= 2)
            for (unsigned callers = 1; callers <= 9; callers++) {
                struct gf_plan_facts facts = h2d(8, bytes);
                facts.callers = callers;
                facts.ring_bytes = ring;
                const struct gf_plan plan = chunks(facts);
                assert_true(plan.chunk >= GF_TUNE_CHUNK_LEAST && plan.chunk <= GF_TUNE_CHUNK_MOST);
                assert_true(2 * plan.chunk <= ring);
                assert_true(callers <= GF_TUNE_CROWD || plan.chunk <= GF_TUNE_CHUNK_CROWD);
                assert_true((plan.chunks - 1) * plan.chunk < bytes);
                assert_true(plan.chunks * plan.chunk >= bytes);
                assert_true(plan.piece >= GF_TUNE_PIECE_LEAST && plan.chunk % plan.piece == 0);
                assert_true(plan.slots >= 1 && plan.slots <= GF_TUNE_SLOTS);
                assert_true(plan.slots <= plan.chunks);
                assert_true(plan.slots_least >= 1 && plan.slots_least <= plan.slots);
            }
}

/*
 * A small asynchronous copy needs a slot for each chunk. Otherwise it would wait, and the driver's
 * copy does not wait.
 */
static void small_asynchronous_copies_need_all_their_slots(void **state)
{
    (void)state;
    struct gf_plan_facts facts = h2d(8, GF_TUNE_ASYNC_NOWAIT);
    facts.async = true;
    struct gf_plan plan = chunks(facts);
    assert_int_equal(plan.slots_least, plan.chunks);
    assert_true(plan.chunks > 2);
    facts.bytes++;
    assert_int_equal(chunks(facts).slots_least, 2);
    facts.bytes--;
    facts.async = false;
    assert_int_equal(chunks(facts).slots_least, 2);
    facts.async = facts.to_host = true;
    assert_int_equal(chunks(facts).slots_least, 2);
    plan = whole(facts);
    assert_int_equal(plan.chunks, 1);
    assert_int_equal(plan.slots_least, 1);
    assert_int_equal(plan.chunk, facts.bytes);
}

/*
 * If huge pages are absent, each piece is one huge page, so that one thread clears it. The chunks
 * of each plan cover the copy without a gap.
 */
static void absent_huge_pages_are_one_piece_each(void **state)
{
    const uintptr_t base = (uintptr_t)1 << 40;
    (void)state;
    for (size_t into = 0; into < 2 * GF_MIB(2); into += GF_KIB(100))
        for (size_t bytes = GF_MIB(4); bytes < GF_MIB(200); bytes = bytes * 3 / 2 + 4097) {
            struct gf_plan_facts facts = h2d(8, bytes);
            facts.to_host = true;
            facts.absent = base + into;
            const struct gf_plan plan = chunks(facts);
            assert_int_equal(plan.piece, GF_MIB(2));
            assert_int_equal(plan.chunk, GF_MIB(2));
            assert_int_equal(gf_plan_chunk_offset(&plan, 0), 0);
            for (uint64_t i = 1; i < plan.chunks; i++) {
                const size_t at = gf_plan_piece_offset(&plan, i);
                assert_int_equal((facts.absent + at) % GF_MIB(2), 0);
                assert_int_equal(at, gf_plan_chunk_offset(&plan, i));
                assert_in_range(at - gf_plan_chunk_offset(&plan, i - 1), 1, GF_MIB(2));
                assert_true(at < bytes);
            }
            assert_true(gf_plan_chunk_offset(&plan, plan.chunks) >= bytes);
        }
    struct gf_plan_facts crowd = h2d(8, GF_MIB(64));
    crowd.to_host = true;
    crowd.absent = base + 4096;
    crowd.callers = GF_TUNE_CROWD + 1; /* a chunk is below a huge page */
    assert_int_equal(chunks(crowd).lead, 0);
    assert_true(chunks(crowd).chunk <= GF_TUNE_CHUNK_CROWD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_copies_by_many_threads_are_demoted),
        cmocka_unit_test(others_are_written_past_the_caches),
        cmocka_unit_test(chunks_and_pieces_are_within_their_bounds),
        cmocka_unit_test(absent_huge_pages_are_one_piece_each),
        cmocka_unit_test(small_asynchronous_copies_need_all_their_slots),
    };
    return cmocka_run_group_tests_name("copy_plan", tests, NULL, NULL);
}
