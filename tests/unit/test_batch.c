/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/hook/copy_shapes.h"

#include <stdlib.h>
#include <string.h>

#define MOST 16

struct whole {
    struct gf_batch batch;
    CUdeviceptr dsts[MOST], srcs[MOST];
    size_t sizes[MOST], first[MOST];
    CUmemcpyAttributes attrs[MOST];
};

/*
 * Makes a batch. `kinds` has a digit for each member: the index of its attributes, in ascending
 * order.
 */
static void make(struct whole *w, const char *kinds)
{
    memset(w, 0, sizeof(*w));
    w->batch = (struct gf_batch){w->dsts, w->srcs, w->sizes, strlen(kinds), w->attrs, w->first, 0};
    for (size_t i = 0; kinds[i]; i++) {
        w->dsts[i] = 1000 + i;
        w->srcs[i] = 2000 + i;
        w->sizes[i] = 3000 + i;
        if (!i || kinds[i] != kinds[i - 1])
            w->first[w->batch.attr_count++] = i;
        w->attrs[kinds[i] - '0'].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
        w->attrs[kinds[i] - '0'].dstLocHint.id = kinds[i];
    }
}

static void sound_batches(void **state)
{
    (void)state;
    struct whole w;
    make(&w, "0");
    assert_true(gf_batch_is_sound(&w.batch));
    make(&w, "001112");
    assert_true(gf_batch_is_sound(&w.batch));
#define UNSOUND(...)                                                                               \
    make(&w, "001112");                                                                            \
    __VA_ARGS__;                                                                                   \
    assert_false(gf_batch_is_sound(&w.batch))
    UNSOUND(w.batch.dsts = NULL);
    UNSOUND(w.batch.srcs = NULL);
    UNSOUND(w.batch.sizes = NULL);
    UNSOUND(w.batch.attrs = NULL);
    UNSOUND(w.batch.attrs_idxs = NULL);
    UNSOUND(w.batch.count = 0);
    UNSOUND(w.batch.attr_count = 0);
    UNSOUND(w.batch.attr_count = 7);
    UNSOUND(w.first[0] = 1);
    UNSOUND(w.first[1] = 0);
    UNSOUND(w.first[2] = 2);
    UNSOUND(w.first[2] = 6);
    UNSOUND(w.attrs[1].srcAccessOrder = 0);
    UNSOUND(w.attrs[1].srcAccessOrder = 4);
}

static void see_member(void *closure, size_t member, bool plain)
{
    char *seen = closure;
    assert_int_equal(member, strlen(seen));
    strcat(seen, plain ? "+" : "-");
}

static const char *plain(const struct whole *w)
{
    static char seen[MOST + 1];
    *seen = '\0';
    gf_batch_each(&w->batch, see_member, seen);
    return seen;
}

static void members_that_ask_for_more_are_not_plain(void **state)
{
    (void)state;
    struct whole w;
    make(&w, "001112");
    assert_string_equal(plain(&w), "++++++");
    w.attrs[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    assert_string_equal(plain(&w), "++---+");
    w.attrs[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    w.attrs[2].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    assert_string_equal(plain(&w), "++++++");
    w.attrs[2].flags = 2;
    assert_string_equal(plain(&w), "+++++-");
    w.attrs[0].srcLocHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    assert_string_equal(plain(&w), "--+++-");
    w.attrs[1].dstLocHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    assert_string_equal(plain(&w), "------");
}

static char kind_of(const struct gf_batch *batch, size_t member)
{
    size_t kind = 0;
    while (kind + 1 < batch->attr_count && batch->attrs_idxs[kind + 1] <= member)
        kind++;
    return (char)batch->attrs[kind].dstLocHint.id;
}

/* Checks that a split batch is valid, and has all other members with their attributes. */
static void check_split(const char *kinds, unsigned apart)
{
    struct whole w;
    struct gf_split split;
    size_t at = 0;
    make(&w, kinds);
    assert_true(gf_split_begin(&w.batch, &split));
    for (size_t i = 0; i < w.batch.count; i++) {
        assert_false(split.staged[i]);
        split.staged[i] = apart >> i & 1;
    }
    gf_split_rest(&w.batch, &split);
    for (size_t i = 0; i < w.batch.count; i++) {
        if (apart >> i & 1)
            continue;
        assert_int_equal(split.rest.dsts[at], 1000 + i);
        assert_int_equal(split.rest.srcs[at], 2000 + i);
        assert_int_equal(split.rest.sizes[at], 3000 + i);
        assert_int_equal(split.rest_members[at], i);
        assert_int_equal(kind_of(&split.rest, at), kinds[i]);
        at++;
    }
    assert_int_equal(split.rest.count, at);
    assert_true(!at || gf_batch_is_sound(&split.rest));
    gf_split_end(&split);
}

static void every_split(void **state)
{
    (void)state;
    static const char *const kinds[] = {"0", "00", "01", "00112", "012345", "0011122"};
    for (size_t i = 0; i < GF_ARRAY_LEN(kinds); i++)
        for (unsigned apart = 0; apart < 1u << strlen(kinds[i]); apart++)
            check_split(kinds[i], apart);
}

static void single_members(void **state)
{
    (void)state;
    static const char kinds[] = "0011122";
    struct whole w;
    make(&w, kinds);
    for (size_t i = 0; i < w.batch.count; i++) {
        struct gf_single single;
        gf_batch_single(&w.batch, i, &single);
        assert_true(gf_batch_is_sound(&single.batch));
        assert_int_equal(single.batch.count, 1);
        assert_int_equal(*single.batch.dsts, 1000 + i);
        assert_int_equal(*single.batch.srcs, 2000 + i);
        assert_int_equal(*single.batch.sizes, 3000 + i);
        assert_int_equal(kind_of(&single.batch, 0), kinds[i]);
    }
}

static void no_memory(void **state)
{
    (void)state;
    struct whole w;
    struct gf_split split;
    make(&w, "0");
    w.batch.count = SIZE_MAX / 64;
    assert_false(gf_split_begin(&w.batch, &split));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_batches), cmocka_unit_test(members_that_ask_for_more_are_not_plain),
        cmocka_unit_test(every_split),   cmocka_unit_test(single_members),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
