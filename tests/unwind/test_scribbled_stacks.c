/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overwrites stacks and registers with random values. The library's unwinder ends, and stays within
 * its arrays and its input. It finds the same frames as libunwind until one of them stops.
 */
#include "unit.h"

#include "child.h"
#include "damage.h"
#include "reference.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define SCRIBBLES 8000, 4000
#else
#define SCRIBBLES 25000, 10000
#endif
#define BYTES_MOST 65536 /* bytes of a stack; sanitizers make frames large */
/* Each step takes a few words of each register's rule. */
#define PEEKS_MOST (4 * GF_UNWIND_FRAMES * GF_REGISTERS * 8)

struct answer {
    size_t count;
    uintptr_t at[GF_UNWIND_FRAMES];
    bool sound;
};

static struct objects objects;
static size_t telling[BYTES_MOST / sizeof(uintptr_t)],
    telling_count; /* words that hold addresses */

/* A thread's registers and stack at one moment, and the overwritten copy of them. */
static struct {
    struct gf_dwarf_frame first;
    uintptr_t address;
    size_t size;
    _Alignas(16) unsigned char byte[BYTES_MOST];
} taken, scribbled;

static size_t peeks;
static bool overlong;

/*
 * Copies some of the requested bytes, as at the end of a mapping, but at least one word if there is
 * one. Returns their number.
 */
static size_t peek(uintptr_t address, void *ret, size_t size)
{
    const uintptr_t at = address - scribbled.address;

    peeks++;
    overlong |= size > 1024;
    if (at >= scribbled.size)
        return 0;
    size_t got = gf_min(size, scribbled.size - at);
    if (address % 128 == 8)
        got = gf_min(got, (size_t)24);
    memcpy(ret, scribbled.byte + at, got);
    return got;
}

static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    const uintptr_t at = address - scribbled.address;

    (void)closure;
    if (at >= scribbled.size || scribbled.size - at < sizeof(*ret))
        return objects_read(&objects, address, ret);
    memcpy(ret, scribbled.byte + at, sizeof(*ret));
    return true;
}

/*
 * Returns a word for damaged stacks: any value, an address of the stack or of code, or an address
 * near the ends of memory.
 */
static uintptr_t scribble(struct series *series)
{
    const struct object *object = &objects.at[series_below(series, objects.count)];

    switch (series_below(series, 5)) {
    case 0:
        return series_next(series);
    case 1:
        return taken.address + (series_below(series, taken.size) & ~(uintptr_t)7);
    case 2:
        return object->start + series_below(series, object->end - object->start);
    case 3:
        return series_below(series, 64);
    default:
        return UINTPTR_MAX - series_below(series, 64);
    }
}

static void choose(size_t i)
{
    struct series series = {i};

    scribbled.first = taken.first;
    scribbled.address = taken.address;
    scribbled.size = taken.size;
    memcpy(scribbled.byte, taken.byte, taken.size);
    if (i == 0)
        return; /* unchanged */
    for (size_t n = 1 + series_below(&series, 8); n-- > 0;) {
        const uintptr_t value = scribble(&series);
        const size_t word = series_below(&series, 4)
                                ? telling[series_below(&series, telling_count)]
                                : series_below(&series, taken.size / sizeof(value));
        memcpy(scribbled.byte + word * sizeof(value), &value, sizeof(value));
    }
    if (series_below(&series, 4) == 0)
        scribbled.first.value[series_below(&series, GF_REGISTERS)] = scribble(&series);
    if (series_below(&series, 16) == 0)
        scribbled.first.pc = scribbled.first.value[16] = scribble(&series);
}

/* Memory before an inaccessible page: a write beyond its end kills the child. */
static void *guarded(size_t size)
{
    const size_t whole = (size + 4095) & ~(size_t)4095;
    char *memory =
        mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory + whole, 4096, PROT_NONE) != 0)
        abort();
    return memory + whole - size;
}

static bool is_sound(const struct gf_stack *stack)
{
    bool sound = stack->frames <= GF_UNWIND_FRAMES && stack->modules <= GF_UNWIND_MODULES &&
                 peeks <= PEEKS_MOST && !overlong;

    for (size_t i = 0; sound && i < stack->frames; i++) {
        const struct gf_frame *frame = &stack->frame[i];
        sound =
            frame->module < stack->modules &&
            frame->offset < stack->module[frame->module].end - stack->module[frame->module].base;
    }
    return sound;
}

static void ask_own(size_t i, void *closure)
{
    static struct gf_stack *stack;
    static void *scratch;
    struct answer *ret = closure;

    if (!stack) {
        stack = guarded((sizeof(*stack) + 15) & ~(size_t)15);
        scratch = guarded(GF_UNWIND_SCRATCH);
    }
    choose(i);
    peeks = 0;
    gf_unwind_stopped(&scribbled.first, peek, stack, scratch);
    ret->sound = is_sound(stack);
    ret->count = stack->frames;
    for (size_t k = 0; ret->sound && k < stack->frames; k++)
        ret->at[k] = stack->module[stack->frame[k].module].base + stack->frame[k].offset;
}

static void ask_reference(size_t i, void *closure)
{
    static struct reference ref = {.objects = &objects, .read = read_word};
    struct answer *ret = closure;

    if (!ref.space)
        reference_open(&ref);
    choose(i);
    ref.first = scribbled.first;
    ret->count = reference_walk(&ref, ret->at, GF_UNWIND_FRAMES);
}

/* Returns the number of equal frames, or SIZE_MAX if two differ. */
static size_t compare(const struct answer *own, const struct answer *theirs)
{
    const size_t count = gf_min(own->count, theirs->count);

    return memcmp(own->at, theirs->at, count * sizeof(own->at[0])) ? SIZE_MAX : count;
}

static void complain(size_t i, const struct answer *own, const struct answer *theirs)
{
    print_message("# scribble %zu: own %zu frames, libunwind's %zu\n", i, own->count,
                  theirs->count);
    for (size_t k = 0; k < gf_min(own->count, theirs->count); k++)
        print_message("#   0x%zx 0x%zx\n", own->at[k], theirs->at[k]);
}

static void take(int signum)
{
    static ucontext_t here;
    const greg_t *r = here.uc_mcontext.gregs;

    (void)signum;
    if (taken.size)
        return;
    getcontext(&here);
    taken.first = (struct gf_dwarf_frame){
        (uintptr_t)r[REG_RIP],
        {0, 0, 0, (uintptr_t)r[REG_RBX], 0, 0, (uintptr_t)r[REG_RBP], (uintptr_t)r[REG_RSP], 0, 0,
         0, 0, (uintptr_t)r[REG_R12], (uintptr_t)r[REG_R13], (uintptr_t)r[REG_R14],
         (uintptr_t)r[REG_R15], (uintptr_t)r[REG_RIP]}};
    taken.address = taken.first.value[GF_REGISTER_SP];
    /* The oldest frames lie just below the environment. */
    taken.size =
        gf_min((size_t)BYTES_MOST, (size_t)((uintptr_t)environ - taken.address)) & ~(size_t)7;
    /* The kernel reads the stack, because a sanitizer forbids access between variables. */
    const struct iovec to = {taken.byte, taken.size}, from = {(void *)taken.address, taken.size};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)taken.size)
        abort();
}

static void find_telling(void)
{
    for (size_t i = 0; i < taken.size / sizeof(uintptr_t); i++) {
        uintptr_t value;
        memcpy(&value, taken.byte + i * sizeof(value), sizeof(value));
        if (value - taken.address < taken.size || objects_find(&objects, value))
            telling[telling_count++] = i;
    }
}

static int compare_deeply(const void *a, const void *b)
{
    static int depth;
    int numbers[] = {2, 1};

    if (++depth < 24) /* more frames than fit */
        qsort(numbers, 2, sizeof(numbers[0]), compare_deeply);
    else
        raise(SIGUSR1);
    return *(const int *)a - *(const int *)b + depth;
}

static void test_stacks(void **state)
{
    const size_t scribbles = damage_rounds(SCRIBBLES);
    struct answer *own = child_memory(scribbles * sizeof(*own));
    struct answer *theirs = child_memory(scribbles * sizeof(*theirs));
    struct child_outcome outcome, reference;
    size_t alike = 0, whole = 0, shorter = 0, wrong = 0;

    (void)state;
    gf_unwind_open();
    if (!gf_unwind_object((const void *)(uintptr_t)&test_stacks))
        skip_because("this libc has no _dl_find_object");
    signal(SIGUSR1, take);
    compare_deeply(&(int){1}, &(int){2});
    objects_list(&objects);
    find_telling();
    child_run(ask_own, scribbles, own, sizeof(*own), &outcome);
    child_run(ask_reference, scribbles, theirs, sizeof(*theirs), &reference);
    for (size_t i = 0; i < scribbles; i++) {
        const size_t count = compare(&own[i], &theirs[i]);
        if (count == SIZE_MAX && wrong++ < 5)
            complain(i, &own[i], &theirs[i]);
        alike += count == SIZE_MAX ? 0 : count;
        whole += count == own[i].count && count == theirs[i].count;
        shorter += own[i].count < own[0].count;
    }
    print_message("# %zu frames alike, of %zu stacks %zu to both ends, %zu cut short; libunwind: "
                  "%zu crashed, "
                  "%zu hung\n",
                  alike, scribbles, whole, shorter, reference.crashed, reference.hung);
    if (outcome.answered != scribbles)
        print_message("# own: %zu crashed, %zu hung, the first with scribble %zu\n",
                      outcome.crashed, outcome.hung, outcome.first_lost);
    assert_int_equal(outcome.answered, scribbles);
    assert_int_equal(wrong, 0);
    for (size_t i = 0; i < scribbles; i++)
        assert_true(own[i].sound);
    assert_true(own[0].count == GF_UNWIND_FRAMES && theirs[0].count == GF_UNWIND_FRAMES);
    assert_true(whole > scribbles / 4 && shorter > scribbles / 8 && alike > 5 * scribbles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stacks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
