/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutated tables: the library's unwinder never crashes, never hangs, and reads nothing outside the
 * table. If it and libunwind both find a caller, both find the same one. libunwind may crash and
 * hang.
 */
#include "unit.h"

#include "child.h"
#include "damage.h"
#include "invented.h"
#include "reference.h"

#include <dlfcn.h>
#include <stdio.h>

#define BATCH 30000
#ifdef __SANITIZE_ADDRESS__
#define MUTATIONS (2 * BATCH), BATCH /* takes as long as all of them without the sanitizer */
#else
#define MUTATIONS (10 * BATCH), (4 * BATCH)
#endif

enum found { found_lost, found_none, found_caller, found_broken };

struct answer {
    enum found found;
    bool special; /* the two unwinders may differ */
    uint32_t known;
    uintptr_t value[GF_REGISTERS];
};

static const struct object *original;
/* one table begins at a page's start, the other ends at a page's end */
static struct object copies[2];
static size_t batch; /* the first mutation of this batch */
static size_t mutations;

static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    const struct object *copy = closure;
    return invented_read(&copy->table, address, ret);
}

/*
 * Returns whether a row's numbers are within the arrays that they index, and its pointers are
 * within the table.
 */
static bool is_sound(const struct gf_table *table, const struct gf_rows *rows)
{
    const unsigned char *cfa = rows->now.cfa_expression;
    bool sound = rows->return_column < GF_REGISTERS && rows->now.cfa_register < GF_REGISTERS &&
                 (!cfa || (cfa >= table->start && cfa <= table->end));

    for (unsigned i = 0; i < GF_REGISTERS; i++) {
        const int32_t at = rows->now.at[i];
        const unsigned rule = rows->now.rule[i];
        if (rule == gf_rule_register)
            sound = sound && at >= 0 && at < GF_REGISTERS;
        if (rule == gf_rule_expression || rule == gf_rule_value_expression)
            sound = sound && at >= 0 && at <= table->end - table->start;
        sound = sound && rule <= gf_rule_value_expression;
    }
    return sound;
}

static enum found step(const struct object *copy, uintptr_t pc, struct gf_dwarf_frame *frame,
                       struct gf_rows *rows)
{
    *frame = invented_frame(pc);
    const uintptr_t sp = frame->value[GF_REGISTER_SP];
    if (gf_dwarf_find(&copy->table, pc, rows) && !is_sound(&copy->table, rows))
        return found_broken;
    if (!gf_dwarf_step(&copy->table, frame, rows, read_word, (void *)(uintptr_t)copy))
        return found_none;
    return frame->value[GF_REGISTER_SP] >= sp ? found_caller : found_broken; /* no endless walk */
}

/*
 * Returns whether the two unwinders may differ. libunwind 1.6 does not support DW_CFA_val_offset
 * (0x14). For DW_CFA_register (0x09), it reads registers that it has already restored. A common
 * entry must not contain DW_CFA_restore, and must define the CFA; otherwise it has no meaning.
 */
static bool is_special(const struct gf_table *table, const struct mutation *mutation)
{
    const unsigned char *entry = table->start + mutation->entry;
    uint32_t size;

    for (size_t k = 0; k < mutation->count; k++)
        if (mutation->change[k].offset < mutation->entry + 8 ||
            mutation->change[k].offset >= mutation->entry + mutation->size)
            return true;
    memcpy(&size, entry, sizeof(size)); /* the mutation has not changed the size */
    return memchr(entry + 8, 0x09, size - 4) || memchr(entry + 8, 0x14, size - 4);
}

static void ask_own(size_t i, void *closure)
{
    struct answer *ret = closure;
    struct mutation mutation;
    struct gf_dwarf_frame frame = {0}; /* a broken table sets neither of the two */
    struct gf_rows rows = {0};
    enum found found[2];

    mutation_choose(original, batch + i, &mutation);
    for (size_t k = 2; k-- > 0;) {
        mutation_apply(&copies[k], &mutation);
        found[k] = step(&copies[k], (uintptr_t)copies[k].table.start + mutation.pc, &frame, &rows);
        ret->special = is_special(&copies[k].table, &mutation);
        mutation_revert(&copies[k], &mutation);
    }
    memcpy(ret->value, frame.value, sizeof(ret->value));
    ret->value[16] = frame.pc + !rows.signal; /* whatever the return column is */
    /* The caller's stack pointer is the CFA. */
    for (unsigned reg = 0; reg < GF_REGISTERS; reg++)
        if (rows.now.rule[reg] != gf_rule_undefined || reg == GF_REGISTER_SP)
            ret->known |= UINT32_C(1) << reg;
    ret->found = found[1] == found_broken ? found_broken : found[0];
}

static void ask_reference(size_t i, void *closure)
{
    static struct objects objects;
    static struct reference ref = {.objects = &objects, .read = read_word, .closure = &copies[0]};
    struct answer *ret = closure;
    struct mutation mutation;
    unw_cursor_t cursor;

    if (!ref.space)
        reference_open(&ref);
    objects = (struct objects){.at = {copies[0]}, .count = 1};
    mutation_choose(original, batch + i, &mutation);
    mutation_apply(&copies[0], &mutation);
    ref.first = invented_frame((uintptr_t)copies[0].table.start + mutation.pc);
    reference_begin(&ref, &cursor);
    ret->found = unw_step(&cursor) > 0 && !ref.guessed ? found_caller : found_none;
    for (int reg = 0; reg < GF_REGISTERS; reg++)
        if (unw_get_reg(&cursor, reg, &ret->value[reg]) == 0)
            ret->known |= UINT32_C(1) << reg;
    mutation_revert(&copies[0], &mutation);
}

static struct sum {
    size_t both, own_only, theirs_only, none, special, wrong;
    struct child_outcome own, theirs;
} sum;

static void complain(size_t i, unsigned reg, const struct answer *own, const struct answer *theirs)
{
    struct mutation mutation;

    if (sum.wrong++ >= 10)
        return;
    mutation_choose(original, i, &mutation);
    print_message(
        "# mutation %zu of %s: register %u 0x%zx (%d), expected 0x%zx (%d); entry 0x%zx, pc "
        "0x%zx\n",
        i, original->name, reg, own->value[reg], own->known >> reg & 1, theirs->value[reg],
        theirs->known >> reg & 1, mutation.entry, mutation.pc);
    for (size_t k = 0; k < mutation.count; k++)
        print_message("#   0x%zx: %02x, was %02x\n", mutation.change[k].offset,
                      mutation.change[k].after, mutation.change[k].before);
}

static void compare(size_t i, const struct answer *own, const struct answer *theirs)
{
    const bool a = own->found == found_caller, b = theirs->found == found_caller;

    assert_int_not_equal(own->found, found_broken);
    sum.own_only += a && !b;
    sum.theirs_only += b && !a;
    sum.none += !a && !b;
    sum.special += a && b && own->special;
    if (!a || !b || own->special)
        return;
    sum.both++;
    for (unsigned reg = 0; reg < GF_REGISTERS; reg++)
        if ((own->known ^ theirs->known) >> reg & 1 ||
            ((own->known >> reg & 1) && own->value[reg] != theirs->value[reg])) {
            complain(i, reg, own, theirs);
            return;
        }
}

static void add(struct child_outcome *sum_of, const struct child_outcome *outcome)
{
    if (!sum_of->crashed && !sum_of->hung)
        sum_of->first_lost = batch + outcome->first_lost;
    sum_of->answered += outcome->answered;
    sum_of->crashed += outcome->crashed;
    sum_of->hung += outcome->hung;
}

static void run_batch(struct answer *own, struct answer *theirs)
{
    struct child_outcome outcome;

    memset(own, 0, BATCH * sizeof(*own));
    memset(theirs, 0, BATCH * sizeof(*theirs));
    child_run(ask_own, BATCH, own, sizeof(*own), &outcome);
    add(&sum.own, &outcome);
    child_run(ask_reference, BATCH, theirs, sizeof(*theirs), &outcome);
    add(&sum.theirs, &outcome);
    for (size_t i = 0; i < BATCH; i++)
        compare(batch + i, &own[i], &theirs[i]);
}

static void test_tables(void **state)
{
    static struct objects objects;
    struct answer *own = child_memory(2 * BATCH * sizeof(*own));

    if (strncmp(*state, "libstdc++", 9) == 0)
        dlopen("libstdc++.so.6", RTLD_NOW);
    objects_list(&objects);
    original = objects_named(&objects, *state);
    if (!original)
        skip_because("not installed here");
    for (size_t k = 0; k < 2; k++)
        copies[k] = damage_copy(original, k == 1);
    sum = (struct sum){0};
    for (batch = 0; batch < mutations; batch += BATCH)
        run_batch(own, own + BATCH);
    print_message(
        "# %s: %zu alike, %zu of opcodes that libunwind takes otherwise, %zu only own, %zu only "
        "libunwind's, %zu none\n",
        original->name, sum.both - sum.wrong, sum.special, sum.own_only, sum.theirs_only, sum.none);
    print_message("# libunwind: %zu crashed, %zu hung\n", sum.theirs.crashed, sum.theirs.hung);
    if (sum.own.crashed || sum.own.hung)
        print_message("# own: %zu crashed, %zu hung, the first with mutation %zu\n",
                      sum.own.crashed, sum.own.hung, sum.own.first_lost);
    assert_int_equal(sum.own.answered, mutations);
    assert_int_equal(sum.wrong, 0);
    assert_true(sum.both > mutations / 5);
}

#define TABLES_OF(prefix)                                                                          \
    {                                                                                              \
        "tables of " prefix, test_tables, NULL, NULL, (void *)(uintptr_t)prefix                    \
    }

int main(void)
{
    mutations = damage_rounds(MUTATIONS);
    const struct CMUnitTest tests[] = {TABLES_OF("libc.so"), TABLES_OF("libstdc++")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
