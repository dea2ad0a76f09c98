/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python_threads.h"

#include "base/elf_view.h"
#include "base/path.h"
#include "stacks/maps_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNTIME_MOST ((size_t)4 << 20) /* bytes of _PyRuntime that are searched */
/* How many words are searched at each address that _PyRuntime contains. */
#define POINTEES 64
/* How many words of a thread state are searched for pthread_self() of its thread. */
#define STATE_WORDS 128
#define STATES_MOST 100000 /* the most states of a list; a damaged list may have no end */

/* Indices of the first words of a PyThreadState, which are the same in each version. */
enum { state_previous, state_next, state_interpreter };

/* The file that contains the interpreter; `path` is valid in this process. */
struct interpreter {
    char path[64 + 4096 + 128];
    uintptr_t start; /* where its first byte is mapped */
};

/*
 * Whether a file may contain the interpreter: "libpython3.11.so.1.0" and "python3.11" may,
 * "python3-config" and extension modules may not.
 */
static bool is_interpreter(const char *path, char *version, size_t size)
{
    const char *name = gf_path_file_name(path);

    if (strncmp(name, "lib", 3) == 0)
        name += 3;
    if (strncmp(name, "python3.", 8) != 0)
        return false;
    const size_t digits = strspn(name + 8, "0123456789");
    const bool free_threaded = name[8 + digits] == 't';
    const char *end = name + 8 + digits + free_threaded;
    if (!digits || (*end && strncmp(end, ".so", 3) != 0 && *end != ' '))
        return false;
    snprintf(version, size, "3.%.*s%s", (int)digits, name + 8,
             free_threaded ? " free-threading" : "");
    return true;
}

static bool find_interpreter(pid_t pid, struct interpreter *ret, char *version, size_t size)
{
    struct gf_maps_line line;
    bool found = false;
    FILE *maps = gf_maps_open(pid);

    while (maps && gf_maps_next(maps, &line)) {
        if (line.path[0] != '/' || line.offset != 0 || !is_interpreter(line.path, version, size))
            continue;
        /* A program that is linked with libpython has the interpreter in the library. */
        if (found && !strstr(line.path, "/libpython"))
            continue;
        snprintf(ret->path, sizeof(ret->path), "/proc/%d/root%s", pid, line.path);
        ret->start = line.start;
        found = true;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Returns the address of _PyRuntime in the process. */
static uintptr_t find_runtime(const struct interpreter *interpreter, size_t *ret_size)
{
    struct gf_elf_view view;
    struct gf_elf_symbols symbols;
    uintptr_t found = 0;
    size_t count;

    if (gf_elf_view_open(interpreter->path, &view) != 0)
        return 0;
    const Elf64_Phdr *load = gf_elf_view_segments(&view, &count);
    while (load && count && load->p_type != PT_LOAD)
        load++, count--;
    if (load && count && gf_elf_view_symbols(&view, &symbols))
        for (size_t i = 0; i < symbols.count && !found; i++)
            if (symbols.list[i].st_name < symbols.strings_size && symbols.list[i].st_value &&
                strcmp(symbols.strings + symbols.list[i].st_name, "_PyRuntime") == 0) {
                found = interpreter->start + symbols.list[i].st_value - load->p_vaddr;
                *ret_size = gf_min((size_t)symbols.list[i].st_size, RUNTIME_MOST);
            }
    gf_elf_view_close(&view);
    return found;
}

struct search {
    struct gf_python_threads *python;
    struct gf_target *target;
};

static bool read_words(const struct search *s, uintptr_t at, uintptr_t *ret, size_t count)
{
    return at % sizeof(*ret) == 0 && at >= 4096 &&
           gf_target_read(s->target, at, ret, count * sizeof(*ret)) == count * sizeof(*ret);
}

/*
 * Returns the index of the target's thread whose pthread_self() is among the words; -1 if there is
 * none.
 */
static ssize_t thread_of(const struct search *s, const uintptr_t *words, size_t count)
{
    for (size_t i = state_interpreter + 1; i < count; i++)
        for (size_t k = 0; words[i] && k < s->target->count; k++)
            if (words[i] == s->target->threads[k].thread_area)
                return (ssize_t)k;
    return -1;
}

/*
 * Follows the interpreter's list of thread states from `state` in one direction, and stores each
 * thread state.
 */
static void follow(const struct search *s, uintptr_t state, uintptr_t interpreter, int direction)
{
    uintptr_t words[STATE_WORDS];

    for (unsigned n = 0; state && n < STATES_MOST; n++) {
        if (!read_words(s, state, words, STATE_WORDS) || words[state_interpreter] != interpreter)
            return;
        const ssize_t thread = thread_of(s, words, STATE_WORDS);
        if (thread >= 0)
            s->python->states[thread] = state;
        state = words[direction];
    }
}

/*
 * Whether the address is that of a thread state. If so, stores all thread states of its
 * interpreter.
 */
static bool try_state(const struct search *s, uintptr_t state)
{
    uintptr_t words[STATE_WORDS], interpreter, neighbour[state_interpreter + 1];

    if (!read_words(s, state, words, STATE_WORDS) || thread_of(s, words, STATE_WORDS) < 0)
        return false;
    interpreter = words[state_interpreter];
    if (!read_words(s, interpreter, neighbour, 1))
        return false;
    for (int way = state_previous; way <= state_next; way++)
        if (words[way] && (!read_words(s, words[way], neighbour, GF_ARRAY_LEN(neighbour)) ||
                           neighbour[state_interpreter] != interpreter))
            return false;
    follow(s, state, interpreter, state_next);
    follow(s, state, interpreter, state_previous);
    return true;
}

/*
 * Searches the words of _PyRuntime for the address of a thread state, then the memory to which
 * these words point. Up to CPython 3.10, _PyRuntime only points to the interpreter, which is an
 * allocated struct.
 */
static bool search_runtime(const struct search *s, const uintptr_t *words, size_t count)
{
    uintptr_t pointees[POINTEES];

    for (size_t i = 0; i < count; i++)
        if (words[i] && try_state(s, words[i]))
            return true;
    for (size_t i = 0; i < gf_min(count, (size_t)1024); i++) {
        if (!words[i] || !read_words(s, words[i], pointees, POINTEES))
            continue;
        for (size_t k = 0; k < POINTEES; k++)
            if (pointees[k] && try_state(s, pointees[k]))
                return true;
    }
    return false;
}

int gf_python_threads_find(struct gf_python_threads *python, struct gf_target *target)
{
    const struct search s = {python, target};
    struct interpreter interpreter;
    size_t size = 0;

    *python = (struct gf_python_threads){0};
    if (!find_interpreter(target->pid, &interpreter, python->version, sizeof(python->version))) {
        python->version[0] = '\0';
        return ENOENT;
    }
    const uintptr_t runtime = find_runtime(&interpreter, &size);
    python->layout = gf_pystack_layout(python->version);
    if (!runtime || !size)
        return ENOENT;
    if (!python->layout)
        return ENOTSUP;
    python->states = calloc(target->count, sizeof(*python->states));
    uintptr_t *words = malloc(size);
    const size_t got = words && python->states ? gf_target_read(target, runtime, words, size) : 0;
    const bool found = got && search_runtime(&s, words, got / sizeof(*words));
    free(words);
    return found ? 0 : ENOENT;
}

void gf_python_threads_free(struct gf_python_threads *python)
{
    free(python->states);
    *python = (struct gf_python_threads){0};
}
