/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/trace/unwind.h"

#include <execinfo.h>
#include <string.h>
#include <sys/mman.h>

static _Alignas(16) unsigned char scratch[GF_UNWIND_SCRATCH];

static bool can_unwind(void)
{
    gf_unwind_open();
    return gf_unwind_object((const void *)(uintptr_t)&can_unwind) != NULL;
}

/* Finds the same callers as libgcc, except the innermost ones in this object. */
static void test_callers(void **state)
{
    static struct gf_stack stack;
    void *theirs[64];
    size_t at = 0;

    (void)state;
    if (!can_unwind())
        skip_because("this libc has no _dl_find_object");
    const size_t count = (size_t)backtrace(theirs, 64);
    gf_unwind(&stack, scratch);
    assert_true(stack.frames > 1 && !stack.cut);
    for (size_t i = 0; i < stack.frames; i++) {
        const struct gf_module *module = &stack.module[stack.frame[i].module];
        const uintptr_t address = module->base + stack.frame[i].offset + 1;
        assert_true(address > module->start && address < module->end);
        while (i == 0 && at < count && (uintptr_t)theirs[at] != address)
            at++;
        assert_true(at < count);
        assert_ptr_equal(theirs[at++], (void *)address);
    }
    assert_int_equal(at, count);
    for (size_t i = 0; i < stack.modules; i++)
        assert_true(stack.module[i].id_length >= 8);
}

#if defined(__x86_64__)
static struct gf_stack found;

static void unwind_here(void)
{
    gf_unwind(&found, scratch);
}

/* Calls unwind_here from code without an unwind table, with this value in the frame pointer's register. */
static void call_with_pointer(uint64_t pointer)
{
    static const unsigned char code[] = {
        0x55,             /* push %rbp */
        0x48, 0x89, 0xf5, /* mov %rsi, %rbp */
        0xff, 0xd7,       /* call *%rdi */
        0x5d, 0xc3,       /* pop %rbp; ret */
    };
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(page != MAP_FAILED);
    memcpy(page, code, sizeof(code));
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    ((void (*)(void (*)(void), uint64_t))page)(unwind_here, pointer);
    munmap(page, 4096);
}

/*
 * Code without a frame pointer may have any number in that register, such as one of the highest
 * addresses.
 */
static void test_no_frame_pointer(void **state)
{
    static const uint64_t numbers[] = {
        0, 1, 8, UINT64_MAX, -UINT64_C(8), -UINT64_C(16), UINT64_C(1) << 63, 0x7fffffffffffff00};
    (void)state;
    if (!can_unwind())
        skip_because("this libc has no _dl_find_object");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        call_with_pointer(numbers[i]);
        assert_int_equal(found.frames, 0);
    }
}

/* A linked list at rising addresses looks like a chain of frames. */
static void test_endless_frames(void **state)
{
    struct {
        uint64_t next, pc;
    } list[10000];

    (void)state;
    if (!can_unwind())
        skip_because("this libc has no _dl_find_object");
    for (size_t i = 0; i < 10000; i++) {
        list[i].next = i + 1 < 10000 ? (uintptr_t)&list[i + 1] : 0;
        list[i].pc = 77;
    }
    call_with_pointer((uintptr_t)&list[0]);
    assert_int_equal(found.frames, 0);
    assert_true(found.cut);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callers),
#if defined(__x86_64__)
        cmocka_unit_test(test_no_frame_pointer),
        cmocka_unit_test(test_endless_frames),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
