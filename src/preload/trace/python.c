/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/python.h"

#include "base/atomic.h"
#include "base/symbols.h"
#include "os/memory.h"
#include "preload/trace/unwind.h"

#include <link.h>
#include <pthread.h>

static struct {
    void *(*_Atomic this_thread)(void);
    /* Returns the state that holds Python's lock; NULL if its symbol is missing. */
    void *(*current)(void);
    const char *(*version)(void);
    /* The object that contains both functions, from gf_unwind_object. */
    const void *object;
    uintptr_t runtime; /* _PyRuntime; 0 if its symbol is missing */
    size_t runtime_size;
} interpreter;

/*
 * The layout of the interpreter's structs; NULL until it is known. Every thread stores the same
 * value.
 */
static const struct gf_pystack_layout *_Atomic layout;

/*
 * Whether the interpreter is still loaded. Checked at each use, because a program that embeds
 * Python may unload the interpreter.
 */
static bool is_loaded(void)
{
    void *(*const function)(void) = gf_load_acquire(&interpreter.this_thread);
    return function && gf_unwind_object((const void *)(uintptr_t)function) == interpreter.object;
}

static void find_runtime(uintptr_t object)
{
    struct gf_symbol runtime;

    interpreter.runtime = 0;
    interpreter.runtime_size = 0;
    if (!gf_symbol_find_data(object, "_PyRuntime", &runtime) || !runtime.entry)
        return;
    interpreter.runtime = (uintptr_t)runtime.address;
    interpreter.runtime_size = ((const ElfW(Sym) *)runtime.entry)->st_size;
}

void gf_python_open(void)
{
    struct gf_symbol thread, version, current;

    /* Another interpreter may have been loaded at the same addresses. */
    gf_store_relaxed(&layout, NULL);
    if (is_loaded() || !gf_symbol_find("PyGILState_GetThisThreadState", NULL, &thread) ||
        !gf_symbol_find("Py_GetVersion", NULL, &version))
        return;
    gf_store_relaxed(&interpreter.this_thread, NULL);
    interpreter.version = (const char *(*)(void))version.address;
    interpreter.object = gf_unwind_object(thread.address);
    interpreter.current = gf_symbol_find("_PyThreadState_UncheckedGet", NULL, &current) &&
                                  gf_unwind_object(current.address) == interpreter.object
                              ? (void *(*)(void))current.address
                              : NULL;
    find_runtime(thread.base);
    gf_store_release(&interpreter.this_thread, (void *(*)(void))thread.address);
}

static const struct gf_pystack_layout *find_layout(void)
{
    const struct gf_pystack_layout *found = gf_load_relaxed(&layout);
    if (found)
        return found;
    const char *version = interpreter.version();
    found = version ? gf_pystack_layout(version) : NULL;
    gf_store_relaxed(&layout, found);
    return found;
}

static size_t read_own(void *closure, uintptr_t address, void *ret, size_t size)
{
    (void)closure;
    return gf_safe_read_some(address, ret, size);
}

/*
 * Up to Python 3.11, PyGILState_GetThisThreadState returns the thread's first state. That is its
 * state in the main interpreter, even while the thread runs a subinterpreter. So if the state that
 * holds Python's lock belongs to this thread, that state is returned. If it belongs to another
 * thread, it may be freed at any time, so it is read by a system call.
 */
static uintptr_t find_thread_state(const struct gf_pystack *own)
{
    const uintptr_t current = interpreter.current ? (uintptr_t)interpreter.current() : 0;
    return gf_pystack_is_of_thread(own, current, (uintptr_t)pthread_self())
               ? current
               : (uintptr_t)interpreter.this_thread();
}

/* The functions of the interpreter that are called here only read stored values. */
size_t gf_python_frames(struct gf_pystack_frame *ret, size_t cap)
{
    static const struct gf_pystack_memory memory = {read_own, NULL};
    const struct gf_pystack own = {is_loaded() ? find_layout() : NULL, &memory};
    const uintptr_t thread = own.layout ? find_thread_state(&own) : 0;

    return thread ? gf_pystack_frames(&own, thread, ret, cap, NULL) : 0;
}

uintptr_t gf_python_thread_state(void)
{
    return is_loaded() ? (uintptr_t)interpreter.this_thread() : 0;
}

bool gf_python_describe(struct gf_python *ret)
{
    if (!is_loaded())
        return false;
    *ret = (struct gf_python){.version = interpreter.version(),
                              .runtime = interpreter.runtime,
                              .runtime_size = interpreter.runtime_size};
    return ret->version != NULL;
}
