/* SPDX-License-Identifier: Apache-2.0 */
/* Imitates an interpreter for test_python.c, with the structures of CPython 3.11 or 3.14. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#pragma GCC visibility push(default)

static union object {
    uintptr_t word[64];
    unsigned char byte[512];
} thread, c_frame, frame, entry, base, code, code_type, table;

/* The memory behind it cannot be read. */
static union object *text;
#define BEHIND ((size_t)4 << 20)

const char *fake_version = "3.11.2 (main, Jan  1 2023, 00:00:00) [GCC 12.2.0]";

const char *Py_GetVersion(void)
{
    return fake_version;
}

void *PyGILState_GetThisThreadState(void)
{
    return &thread;
}

/*
 * Makes a str that claims to be ASCII, with `length` characters of `width` bytes, all equal to `byte`.
 */
void fake_text(unsigned width, size_t length, unsigned char byte)
{
    memset(text, byte, sizeof(*text));
    text->word[2] = length;
    text->byte[32] = (unsigned char)(width << 2 | 1 << 5 | 1 << 6);
}

void fake_start(void)
{
    thread.word[7] = (uintptr_t)&c_frame;
    c_frame.word[1] = (uintptr_t)&frame;
    frame.word[4] = (uintptr_t)&code;
    frame.word[7] = (uintptr_t)&code + 184;
    code.word[1] = (uintptr_t)&code_type;
    code_type.word[3] = (uintptr_t) "code";
    if (!text) {
        text = mmap(NULL, BEHIND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(text, sizeof(*text), PROT_READ | PROT_WRITE);
    }
    code.word[14] = code.word[16] = (uintptr_t)text;
    code.byte[72] = 41;
    code.word[17] = (uintptr_t)&table;
    table.word[2] = 2;
    table.byte[32] = 0x80 | 11 << 3 | 7; /* the line after the first */
    table.byte[33] = 0;
    fake_text(1, 5, 'x');
}

/*
 * Turns the structures into those of CPython 3.14: the pointer to the code object is tagged, and the
 * interpreter's own frames, of both kinds, follow.
 */
void fake_start_3_14(void)
{
    fake_version = "3.14.0 (main, Oct  7 2025, 00:00:00) [GCC 12.2.0]";
    memset(&frame, 0, sizeof(frame));
    thread.word[9] = (uintptr_t)&frame;
    frame.word[0] = entry.word[0] = base.word[0] = (uintptr_t)&code | 1;
    frame.word[7] = entry.word[7] = base.word[7] = (uintptr_t)&code + 208;
    frame.word[1] = (uintptr_t)&entry;
    entry.word[1] = (uintptr_t)&base;
    entry.byte[74] = 3;
    base.byte[74] = 4;
    code.byte[72] = 0;
    code.byte[68] = 41;
}
