/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stacks/examine.h"

#include "base/elf_view.h"
#include "base/path.h"

#include <stdlib.h>

#define RUNTIME_MOST ((size_t)4 << 20) /* bytes of _PyRuntime that are searched */
/* How many words are searched at each address that _PyRuntime contains. */
#define POINTEES 64
#define POINTERS 1024 /* how many words of _PyRuntime are searched for pointers to interpreters */
/*
 * How many words of an interpreter are searched for the pointer to its thread states. In CPython
 * 3.15 it is at word 917.
 */
#define INTERPRETER_WORDS 4096
#define NEXT_WORDS 64          /* the next interpreter's address is at most so far before it */
#define INTERPRETERS_MOST 1000 /* the most of a chain; a damaged chain may have no end */
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
        gf_maps_file(pid, line.path, line.inode, ret->path, sizeof(ret->path));
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

/*
 * Where an interpreter has the pointer to its newest thread state and the pointer to the
 * interpreter that was created before it, in words from its start.
 */
struct chain {
    uintptr_t newest; /* the newest interpreter */
    size_t states, next;
};

/* pthread_self() of a thread, which has this index in the target. */
struct area {
    uintptr_t self;
    size_t thread;
};

struct search {
    struct gf_python_threads *python;
    struct gf_target *target;
    struct area *areas; /* sorted */
    bool short_of_memory;
};

GF_COMPARATOR(by_self, struct area, gf_order(one->self, other->self))

static void sort_areas(struct search *s)
{
    s->areas = calloc(s->target->count + 1, sizeof(*s->areas));
    s->short_of_memory = !s->areas;
    for (size_t i = 0; s->areas && i < s->target->count; i++)
        s->areas[i] = (struct area){s->target->threads[i].registers.fs_base, i};
    if (s->areas)
        qsort(s->areas, s->target->count, sizeof(*s->areas), by_self);
}

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
    for (size_t i = state_interpreter + 1; i < count; i++) {
        const struct area wanted = {.self = words[i]}, *found = NULL;
        if (words[i])
            found = bsearch(&wanted, s->areas, s->target->count, sizeof(wanted), by_self);
        if (found)
            return (ssize_t)found->thread;
    }
    return -1;
}

static void store_state(struct search *s, size_t thread, uintptr_t state)
{
    struct gf_python_threads *python = s->python;
    struct gf_python_state *more =
        realloc(python->states, (python->count + 1) * sizeof(*python->states));

    if (!more) {
        s->short_of_memory = true;
        return;
    }
    python->states = more;
    more[python->count++] = (struct gf_python_state){thread, state};
}

/*
 * Follows the interpreter's list of thread states from `state` in one direction, and stores each
 * thread state. Returns the last one.
 */
static uintptr_t follow(struct search *s, uintptr_t state, uintptr_t interpreter, int direction,
                        bool store)
{
    uintptr_t words[STATE_WORDS], last = 0;

    for (unsigned n = 0; state && n < STATES_MOST; n++) {
        if (!read_words(s, state, words, STATE_WORDS) || words[state_interpreter] != interpreter)
            break;
        const ssize_t thread = store ? thread_of(s, words, STATE_WORDS) : -1;
        if (thread >= 0)
            store_state(s, (size_t)thread, state);
        last = state;
        state = words[direction];
    }
    return last;
}

/* Returns the interpreter of the thread state at this address; 0 if there is no thread state. */
static uintptr_t interpreter_of(const struct search *s, uintptr_t state)
{
    uintptr_t words[STATE_WORDS], interpreter, neighbour[state_interpreter + 1];

    if (!read_words(s, state, words, STATE_WORDS) || thread_of(s, words, STATE_WORDS) < 0)
        return 0;
    interpreter = words[state_interpreter];
    if (!read_words(s, interpreter, neighbour, 1))
        return 0;
    for (int way = state_previous; way <= state_next; way++)
        if (words[way] && (!read_words(s, words[way], neighbour, GF_ARRAY_LEN(neighbour)) ||
                           neighbour[state_interpreter] != interpreter))
            return 0;
    return interpreter;
}

/*
 * Searches the words of _PyRuntime for the address of a thread state, then the memory to which
 * these words point. Up to CPython 3.10, _PyRuntime only points to the interpreter, which is an
 * allocated struct.
 */
static uintptr_t find_state(const struct search *s, const uintptr_t *words, size_t count)
{
    uintptr_t pointees[POINTEES];

    for (size_t i = 0; i < count; i++)
        if (words[i] && interpreter_of(s, words[i]))
            return words[i];
    for (size_t i = 0; i < gf_min(count, (size_t)POINTERS); i++) {
        if (!words[i] || !read_words(s, words[i], pointees, POINTEES))
            continue;
        for (size_t k = 0; k < POINTEES; k++)
            if (pointees[k] && interpreter_of(s, pointees[k]))
                return pointees[k];
    }
    return 0;
}

/* Returns the newest thread state of the interpreter; 0 if it has none, or is no interpreter. */
static uintptr_t newest_state(const struct search *s, uintptr_t interpreter, size_t states)
{
    uintptr_t state, words[state_interpreter + 1];

    return read_words(s, interpreter + states * sizeof(state), &state, 1) &&
                   read_words(s, state, words, GF_ARRAY_LEN(words)) &&
                   words[state_interpreter] == interpreter
               ? state
               : 0;
}

static uintptr_t next_interpreter(const struct search *s, const struct chain *chain, uintptr_t at)
{
    uintptr_t next;
    return read_words(s, at + chain->next * sizeof(next), &next, 1) ? next : 0;
}

/* Whether the chain leads to `known`. The chain may also be a ring of unrelated structs. */
static bool leads_to(const struct search *s, const struct chain *chain, uintptr_t known)
{
    uintptr_t at = chain->newest;

    for (unsigned n = 0; at && at != known && n < INTERPRETERS_MOST; n++) {
        at = next_interpreter(s, chain, at);
        if (at == chain->newest)
            return false;
    }
    return at == known;
}

/* Returns how many interpreters of the chain have thread states. */
static size_t visit(struct search *s, const struct chain *chain, bool store)
{
    size_t found = 0;
    uintptr_t at = chain->newest;

    for (unsigned n = 0; at && n < INTERPRETERS_MOST; n++, at = next_interpreter(s, chain, at)) {
        const uintptr_t state = newest_state(s, at, chain->states);
        found += state != 0;
        if (state && store)
            follow(s, state, at, state_next, true);
    }
    return found;
}

/*
 * Finds all interpreters from the thread state of one of them. _PyRuntime has the addresses of the
 * newest interpreter and of the main interpreter, one after the other. Each interpreter has the
 * address of the next older one shortly before that of its thread states. An interpreter in between
 * may have no thread states. So of all chains that lead to the known interpreter, the one with the
 * most thread states is taken.
 */
static void search_interpreters(struct search *s, const uintptr_t *words, size_t count,
                                uintptr_t state)
{
    const uintptr_t known = interpreter_of(s, state),
                    newest = follow(s, state, known, state_previous, false);
    struct chain chain = {0}, best = {.newest = known};
    size_t most = 0;

    while (chain.states < INTERPRETER_WORDS && newest_state(s, known, chain.states) != newest)
        chain.states++;
    if (chain.states == INTERPRETER_WORDS) {
        follow(s, newest, known, state_next, true);
        return;
    }
    best.states = chain.states;
    for (size_t i = 0; i + 1 < gf_min(count, (size_t)POINTERS); i++) {
        if (!words[i] || !newest_state(s, words[i + 1], chain.states))
            continue;
        chain.newest = words[i];
        chain.next = chain.states - gf_min(chain.states, (size_t)NEXT_WORDS);
        for (; chain.next < chain.states; chain.next++) {
            const size_t found = leads_to(s, &chain, known) ? visit(s, &chain, false) : 0;
            if (found > most) {
                most = found;
                best = chain;
            }
        }
    }
    visit(s, &best, true);
}

int gf_python_threads_find(struct gf_python_threads *python, struct gf_target *target)
{
    struct search s = {.python = python, .target = target};
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
    uintptr_t *words = malloc(size);
    if (!words)
        return ENOMEM;
    sort_areas(&s);
    const size_t count = gf_target_read(target, runtime, words, size) / sizeof(*words);
    const uintptr_t state = s.areas ? find_state(&s, words, count) : 0;
    if (state)
        search_interpreters(&s, words, count, state);
    free(s.areas);
    free(words);
    return s.short_of_memory ? ENOMEM : state ? 0 : ENOENT;
}
