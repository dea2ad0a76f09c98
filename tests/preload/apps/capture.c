/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a Python in place of the library. At one of several calls of the malloc family it
 * does the same as a stall: it reads the thread's Python frames and native stack, whatever the
 * interpreter is doing. CAPTURE_EVERY is the number of calls between two captures.
 */
#include "preload/trace/python.h"
#include "preload/trace/unwind.h"

#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

/* Returns the line of the Python program from which it is called. */
int probe(void);
const char *probed_file(void);
const char *probed_function(void);
long captures(void);
long captured_stacks(void);

static struct {
    bool on;
    unsigned every;
    long captures, stacks;
} state;

struct mine {
    bool inside;
    unsigned turn;
    struct gf_pystack_frame probed;
    struct gf_pystack_frame frames[GF_PYTHON_FRAMES];
    struct gf_stack stack;
    _Alignas(16) unsigned char scratch[GF_UNWIND_SCRATCH];
};
static __thread struct mine mine;

__attribute__((constructor)) static void start(void)
{
    const char *every = getenv("CAPTURE_EVERY");

    state.every = every ? (unsigned)atoi(every) : 0;
    gf_unwind_open();
    gf_python_open();
    __atomic_store_n(&state.on, state.every > 0, __ATOMIC_RELEASE);
}

static void capture(void)
{
    mine.inside = true;
    if (gf_python_frames(mine.frames, GF_PYTHON_FRAMES) > 0)
        __atomic_fetch_add(&state.captures, 1, __ATOMIC_RELAXED);
    gf_unwind(&mine.stack, mine.scratch);
    if (mine.stack.frames > 0)
        __atomic_fetch_add(&state.stacks, 1, __ATOMIC_RELAXED);
    mine.inside = false;
}

static void now_and_then(void)
{
    if (__atomic_load_n(&state.on, __ATOMIC_ACQUIRE) && !mine.inside &&
        ++mine.turn % state.every == 0)
        capture();
}

GF_EXPORT void *malloc(size_t size)
{
    now_and_then();
    return __libc_malloc(size);
}

GF_EXPORT void *calloc(size_t count, size_t size)
{
    now_and_then();
    return __libc_calloc(count, size);
}

GF_EXPORT void *realloc(void *block, size_t size)
{
    now_and_then();
    return __libc_realloc(block, size);
}

GF_EXPORT void free(void *block)
{
    now_and_then();
    __libc_free(block);
}

GF_EXPORT int probe(void)
{
    struct gf_pystack_frame frame[1];

    memset(&mine.probed, 0, sizeof(mine.probed));
    if (gf_python_frames(frame, 1) == 0)
        return -1;
    mine.probed = frame[0];
    return mine.probed.line;
}

GF_EXPORT const char *probed_file(void)
{
    return mine.probed.file;
}

GF_EXPORT const char *probed_function(void)
{
    return mine.probed.function;
}

GF_EXPORT long captures(void)
{
    return __atomic_load_n(&state.captures, __ATOMIC_RELAXED);
}

GF_EXPORT long captured_stacks(void)
{
    return __atomic_load_n(&state.stacks, __ATOMIC_RELAXED);
}
