/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests every row of the unwind tables of installed libraries. At the row's first and last address,
 * it applies the row to invented registers and memory. The library's unwinder must find the same
 * registers of the caller as libunwind. libgcc reports where functions begin and end.
 */
#include "unit.h"

#include "invented.h"
#include "reference.h"

#include <dlfcn.h>
#include <stdio.h>

struct bases {
    void *text, *data, *function;
};

typedef const void *find_fde_fn(void *pc, struct bases *ret);

struct judged {
    const struct object *object;
    struct reference ref;
    size_t rows, steps, ends;
    size_t wrong;
};

static struct objects objects;
static find_fde_fn *find_fde;

static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    const struct judged *judged = closure;
    return invented_read(&judged->object->table, address, ret);
}

static void complain(struct judged *judged, uintptr_t pc, const char *about, uint64_t own,
                     uint64_t theirs)
{
    if (judged->wrong++ < 10)
        print_message("# %s+0x%zx: %s 0x%llx, expected 0x%llx\n", judged->object->name,
                      pc - judged->object->start, about, (unsigned long long)own,
                      (unsigned long long)theirs);
}

/*
 * Compares the caller's registers. `cursor` is at pc, and has the caller's registers if status is
 * positive.
 */
static void judge_registers(struct judged *judged, uintptr_t pc, bool is_signal,
                            unw_cursor_t *cursor, int status)
{
    struct gf_dwarf_frame frame = judged->ref.first;
    struct gf_rows rows;
    const bool stepped = gf_dwarf_step(&judged->object->table, &frame, &rows, read_word, judged);

    if (stepped != (status > 0)) {
        complain(judged, pc, "a caller", stepped, status > 0);
        return;
    }
    if (!stepped) {
        judged->ends++;
        return;
    }
    judged->steps++;
    for (unsigned i = 0; i < GF_REGISTERS; i++) {
        unw_word_t theirs;
        const bool known = unw_get_reg(cursor, (int)i, &theirs) == 0;
        if (known != (rows.now.rule[i] != gf_rule_undefined))
            complain(judged, pc, "a register's being known", !known, known);
        else if (known && frame.value[i] != theirs)
            complain(judged, pc, "a register", frame.value[i], theirs);
    }
    if (frame.pc != frame.value[16] - !is_signal)
        complain(judged, pc, "the caller's address", frame.pc, frame.value[16] - !is_signal);
}

static void judge_address(struct judged *judged, void *row, uintptr_t pc)
{
    unw_cursor_t cursor, signals;
    unw_proc_info_t info;

    judged->ref.first = invented_frame(pc);
    reference_begin(&judged->ref, &signals);
    assert_int_equal(unw_get_proc_info(&signals, &info), 0);
    reference_begin(&judged->ref, &cursor);
    const int status = unw_apply_reg_state(&cursor, row);
    judge_registers(judged, pc, unw_is_signal_frame(&signals), &cursor, status);
}

static int judge_row(void *closure, void *row, size_t size, unw_word_t start, unw_word_t end)
{
    struct judged *judged = closure;
    struct gf_rows rows;

    (void)size;
    judged->rows++;
    /*
     * A row of a PLT covers many entries. From the address, the row's expression computes which
     * instruction of the entry runs.
     */
    const bool each =
        gf_dwarf_find(&judged->object->table, start, &rows) && rows.now.cfa_expression;
    for (uintptr_t pc = start; pc < end; pc += each || pc == end - 1 ? 1 : end - 1 - pc)
        judge_address(judged, row, pc);
    return 0;
}

static void judge_bounds(struct judged *judged, uintptr_t pc, uintptr_t function)
{
    struct bases bases = {NULL, NULL, NULL};
    struct gf_rows rows;
    const bool known = find_fde((void *)pc, &bases) != NULL;

    if (function && (!known || (uintptr_t)bases.function != function))
        complain(judged, pc, "the function to libunwind", function, (uintptr_t)bases.function);
    if (gf_dwarf_find(&judged->object->table, pc, &rows) != known)
        complain(judged, pc, "a row", !known, known);
}

/* Compares all rows of a function, and returns the function's end. */
static uintptr_t judge_function(struct judged *judged, uintptr_t start)
{
    unw_cursor_t cursor;
    unw_proc_info_t info;

    judged->ref.first = invented_frame(start);
    reference_begin(&judged->ref, &cursor);
    if (unw_get_proc_info(&cursor, &info) != 0 || info.start_ip != start) {
        complain(judged, start, "a function to libunwind", info.start_ip, start);
        return start;
    }
    judge_bounds(judged, start, start);
    judge_bounds(judged, info.end_ip - 1, start);
    reference_begin(&judged->ref, &cursor);
    if (unw_reg_states_iterate(&cursor, judge_row, judged) < 0)
        complain(judged, start, "rows", 0, 0);
    return info.end_ip;
}

#ifdef __SANITIZE_ADDRESS__
#define EVERY 4 /* all functions are compared without it */
#else
#define EVERY 1
#endif

static void judge_object(const struct object *object)
{
    static struct judged judged;

    judged = (struct judged){.object = object};
    judged.ref = (struct reference){.objects = &objects, .read = read_word, .closure = &judged};
    reference_open(&judged.ref);
    for (size_t i = 0; i < object->entries; i += EVERY) {
        const uintptr_t end = judge_function(&judged, object_function(object, i));
        if (i + 1 == object->entries || end < object_function(object, i + 1))
            judge_bounds(&judged, end, 0);
    }
    reference_close(&judged.ref);
    print_message("# %s: %zu functions, %zu rows, %zu callers found, %zu times none\n",
                  object->name, object->entries, judged.rows, judged.steps, judged.ends);
    assert_int_equal(judged.wrong, 0);
    assert_true(judged.rows >= object->entries / EVERY && judged.steps >= judged.rows);
}

static void test_rows(void **state)
{
    const struct object *object = objects_named(&objects, *state);

    if (!object)
        skip_because("not installed here");
    judge_object(object);
}

static int open_all(void **state)
{
    char name[32];

    (void)state;
    dlopen("libstdc++.so.6", RTLD_NOW);
    for (int minor = 8; minor < 20; minor++) {
        snprintf(name, sizeof(name), "libpython3.%d.so.1.0", minor);
        if (dlopen(name, RTLD_LAZY))
            break;
    }
    /* Does not search the default scope, because libunwind exports functions with libgcc's names. */
    void *libgcc = dlopen("libgcc_s.so.1", RTLD_NOW);
    find_fde = libgcc ? (find_fde_fn *)dlsym(libgcc, "_Unwind_Find_FDE") : NULL;
    objects_list(&objects);
    return find_fde ? 0 : -1;
}

#define ROWS_OF(prefix)                                                                            \
    {                                                                                              \
        "rows of " prefix, test_rows, NULL, NULL, (void *)(uintptr_t)prefix                        \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROWS_OF("libc.so"),   ROWS_OF("ld-linux"),  ROWS_OF("libgcc_s"),
        ROWS_OF("libstdc++"), ROWS_OF("libpython"), ROWS_OF("linux-vdso"),
    };
    return cmocka_run_group_tests(tests, open_all, NULL);
}
