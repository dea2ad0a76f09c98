/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/child_python.h"

#include "base/fmt.h"
#include "engine/gputime/process_read.h"
#include "engine/gputime/python_line.h"
#include "os/procfs.h"

#include <stdlib.h>
#include <string.h>

#define TEXT 4096u
#define STATES 256u /* the most thread states of a list that are read; a damaged list has no end */
/*
 * How many words are searched for the pointer to the interpreter's state, and for the pointer to
 * the list of thread states. In CPython 3.15 they are at word 117 of _PyRuntime, and at word 917 of
 * the interpreter's state.
 */
#define RUNTIME_WORDS 1024u
#define INTERPRETER_WORDS 4096u

/* Indices of the first words of a PyThreadState, which are the same in each version. */
enum { state_previous, state_next, state_interpreter, STATE_WORDS };

/* A line of /proc/PID/maps. */
struct mapping {
    uintptr_t start, end;
    uint64_t offset, inode;
    unsigned major, minor;
};

/* How the words of _PyRuntime lead to the list of thread states: offsets in bytes. */
struct chain {
    uintptr_t interpreter; /* in _PyRuntime */
    uintptr_t states;      /* in the interpreter's state */
};

/* The mapping of the first bytes of the file that contains the interpreter. */
static struct mapping own_file;

/* Parses a line such as "55d0c0000000-55d0c0021000 r--p 00000000 08:01 1234 /usr/bin/python3". */
static bool parse_mapping(const char *line, struct mapping *ret)
{
    char *at;

    ret->start = strtoul(line, &at, 16);
    if (*at != '-')
        return false;
    ret->end = strtoul(at + 1, &at, 16);
    if (strlen(at) < sizeof(" r--p "))
        return false;
    ret->offset = strtoul(at + strlen(" r--p "), &at, 16);
    ret->major = (unsigned)strtoul(at, &at, 16);
    if (*at != ':')
        return false;
    ret->minor = (unsigned)strtoul(at + 1, &at, 16);
    ret->inode = strtoul(at, NULL, 10);
    return true;
}

static bool is_start_of_file(const struct mapping *mapping)
{
    return mapping->inode && !mapping->offset;
}

/* Returns the next mapping in the file; false after the last one. */
static bool next_mapping(struct gf_procfs_lines *lines, struct mapping *ret)
{
    const char *line;

    while ((line = gf_procfs_lines_next(lines)))
        if (!lines->continued && parse_mapping(line, ret))
            return true;
    return false;
}

/*
 * The mappings of an object follow each other, and the first one contains the file's first bytes.
 */
static bool find_own_file(uintptr_t runtime)
{
    char text[TEXT];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    struct mapping mapping, start = {0};
    bool found = false;

    if (own_file.inode)
        return true;
    if (!gf_procfs_lines_open(&lines, "/proc/self/maps"))
        return false;
    while (!found && next_mapping(&lines, &mapping)) {
        if (is_start_of_file(&mapping))
            start = mapping;
        found = runtime - mapping.start < mapping.end - mapping.start;
    }
    gf_procfs_lines_close(&lines);
    if (found)
        own_file = start;
    return found && start.inode;
}

/* Returns the address of _PyRuntime in the child; 0 if the child has not mapped the interpreter. */
static uintptr_t find_runtime(pid_t pid, uintptr_t own)
{
    char text[TEXT], path[32];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    struct mapping mapping;
    uintptr_t found = 0;

    gf_fmt(path, sizeof(path), "/proc/%d/maps", pid);
    if (!find_own_file(own) || !gf_procfs_lines_open(&lines, path))
        return 0;
    while (!found && next_mapping(&lines, &mapping))
        if (is_start_of_file(&mapping) && mapping.inode == own_file.inode &&
            mapping.major == own_file.major && mapping.minor == own_file.minor)
            found = mapping.start + (own - own_file.start);
    gf_procfs_lines_close(&lines);
    return found;
}

static bool read_word(pid_t pid, uintptr_t address, uintptr_t *ret)
{
    return gf_process_read(pid, address, ret, sizeof(*ret));
}

/* Searches this process's memory for a word. Returns its distance from `from`; -1 if not found. */
static intptr_t find_word(uintptr_t from, size_t count, uintptr_t word)
{
    uintptr_t words[128];

    for (size_t at = 0; at < count; at += GF_ARRAY_LEN(words)) {
        const size_t got =
            gf_process_read_some(0, from + at * sizeof(*words), words, sizeof(words));
        for (size_t i = 0; i < gf_min(got / sizeof(*words), count - at); i++)
            if (words[i] == word)
                return (intptr_t)((at + i) * sizeof(*words));
        if (got < sizeof(words))
            break;
    }
    return -1;
}

/* Returns the thread state at one end of the list that contains `state`; 0 if it is damaged. */
static uintptr_t find_end(pid_t pid, uintptr_t state, uintptr_t interpreter, int direction)
{
    uintptr_t words[STATE_WORDS];

    for (unsigned i = 0; i < STATES; i++) {
        if (!gf_process_read(pid, state, words, sizeof(words)) ||
            words[state_interpreter] != interpreter)
            return 0;
        if (!words[direction])
            return state;
        state = words[direction];
    }
    return 0;
}

/*
 * _PyRuntime has the addresses of the newest interpreter and of the main interpreter, one after the
 * other. In this process both may be the same. In the child, only the second is the interpreter of
 * the main thread.
 */
static uintptr_t main_after(uintptr_t runtime, uintptr_t newest, uintptr_t interpreter)
{
    uintptr_t after;
    const uintptr_t next = newest + sizeof(after);
    return read_word(0, runtime + next, &after) && after == interpreter ? next : newest;
}

/* Finds in this process at which offsets the pointers are. `state`: any thread's state. */
static bool find_chain(uintptr_t runtime, size_t size, uintptr_t state, struct chain *ret)
{
    uintptr_t words[STATE_WORDS];

    if (!gf_process_read(0, state, words, sizeof(words)))
        return false;
    const uintptr_t interpreter = words[state_interpreter],
                    first = find_end(0, state, interpreter, state_previous);
    if (!first)
        return false;
    const size_t words_most = gf_min(size / sizeof(uintptr_t), (size_t)RUNTIME_WORDS);
    const intptr_t in_runtime = find_word(runtime, words_most, interpreter);
    const intptr_t in_interpreter = find_word(interpreter, INTERPRETER_WORDS, first);
    if (in_runtime < 0 || in_interpreter < 0)
        return false;
    *ret = (struct chain){main_after(runtime, (uintptr_t)in_runtime, interpreter),
                          (uintptr_t)in_interpreter};
    return true;
}

static bool belongs_to(pid_t pid, uintptr_t state, uintptr_t interpreter)
{
    uintptr_t found;
    return state && interpreter &&
           read_word(pid, state + state_interpreter * sizeof(found), &found) &&
           found == interpreter;
}

uintptr_t gf_child_python_state(struct gf_child_python *child, pid_t pid, uintptr_t parent_state)
{
    uintptr_t interpreter;

    if (belongs_to(pid, child->state, child->interpreter))
        return child->state;
    *child = (struct gf_child_python){0};
    if (!parent_state ||
        !read_word(0, parent_state + state_interpreter * sizeof(interpreter), &interpreter))
        return 0;
    return belongs_to(pid, parent_state, interpreter) ? parent_state : 0;
}

/* New thread states are put at the front of the list, so the main thread's state is the last. */
bool gf_child_python_search(struct gf_child_python *child, pid_t pid, uintptr_t parent_state)
{
    size_t size;
    const uintptr_t own = gf_python_line_runtime(&size);
    struct chain chain;
    uintptr_t interpreter, first;

    if (!own || !parent_state || !find_chain(own, size, parent_state, &chain))
        return false;
    const uintptr_t runtime = find_runtime(pid, own);
    if (!runtime || !read_word(pid, runtime + chain.interpreter, &interpreter) || !interpreter ||
        !read_word(pid, interpreter + chain.states, &first) || !first)
        return false;
    *child = (struct gf_child_python){find_end(pid, first, interpreter, state_next), interpreter};
    return child->state != 0;
}
