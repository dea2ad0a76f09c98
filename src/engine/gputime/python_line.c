/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/host_causes.h"

#include "base/fmt.h"
#include "base/path.h"
#include "os/memory.h"
#include "os/permit.h"

#include <pthread.h>
#include <sys/uio.h>
#include <time.h>

size_t gf_process_read_some(pid_t pid, uintptr_t address, void *ret, size_t size)
{
    const struct iovec local = {ret, size}, remote = {(void *)address, size};

    if (!pid)
        return gf_safe_read_some(address, ret, size);
    if (!gf_permit(gf_permit_read_memory))
        return 0;
    gf_keep_errno();
    const ssize_t got = syscall(SYS_process_vm_readv, pid, &local, 1UL, &remote, 1UL, 0UL);
    return got < 0 ? 0 : (size_t)got;
}

/*
 * The program's own code is usually among the innermost FEW frames. While modules import each other,
 * and in frameworks with many layers, more frames are read.
 */
#define FEW 24u
#define FRAMES 256u
/* So many other thread states are looked at: for a thread of autograd, or for the holder of a lock. */
#define NEIGHBOURS 64u
#define HOLDERS 8u
#define BLOCK 512u
#define BLOCKS 32u
/*
 * In CPython 3.9 to 3.15, Python's lock consists of a pointer to the holder's thread state, a flag,
 * a counter and a condition variable. glibc's condition variable contains two futexes, and a
 * waiting thread sleeps on one of them. HOLDER_BEFORE is the distance from the pointer to the
 * condition variable.
 */
#define HOLDER_BEFORE 24u

static struct {
    const struct gf_pystack_layout *layout;
    uintptr_t runtime;
    size_t runtime_size;
    size_t condition_futex; /* the offset of the first futex in a condition variable; 0: unknown */
} interpreter;

/* Caches blocks of memory, because reading frames needs many small pieces of few pages. */
struct cache {
    pid_t pid;
    uintptr_t at[BLOCKS]; /* the address of each block; 0: the slot is free */
    size_t held[BLOCKS];
    unsigned char bytes[BLOCKS][BLOCK];
};

/*
 * Returns the bytes of the block at `at`, and sets *ret_held to their number. There are fewer than
 * BLOCK if an unmapped page follows.
 */
static const unsigned char *find_block(struct cache *cache, uintptr_t at, size_t *ret_held)
{
    const unsigned slot = (unsigned)(at / BLOCK) % BLOCKS;

    if (cache->at[slot] != at) {
        cache->held[slot] = gf_process_read_some(cache->pid, at, cache->bytes[slot], BLOCK);
        cache->at[slot] = at;
    }
    *ret_held = cache->held[slot];
    return cache->bytes[slot];
}

static size_t read_cached(void *closure, uintptr_t address, void *ret, size_t size)
{
    size_t done = 0;

    while (done < size) {
        const uintptr_t at = (address + done) / BLOCK * BLOCK;
        const size_t from = (address + done) % BLOCK;
        size_t held;
        if (at < BLOCK)
            break;
        const unsigned char *bytes = find_block(closure, at, &held);
        if (held <= from)
            break;
        const size_t some = gf_min(size - done, held - from);
        memcpy((char *)ret + done, bytes + from, some);
        done += some;
    }
    return done;
}

/* Returns how to read a process, of which nothing is cached yet. */
static struct gf_pystack read_anew(pid_t pid)
{
    static struct cache cache; /* used on the sampler's thread only */
    static const struct gf_pystack_memory memory = {read_cached, &cache};

    cache.pid = pid;
    memset(cache.at, 0, sizeof(cache.at));
    return (struct gf_pystack){interpreter.layout, &memory};
}

static bool is_equal(const struct gf_pystack_frame *a, const struct gf_pystack_frame *b)
{
    return a->line == b->line && strcmp(a->function, b->function) == 0 &&
           strcmp(a->file, b->file) == 0;
}

static void set_line(const struct gf_pystack_frame *frame, struct gf_python_line *ret)
{
    gf_path_copy_end(frame->file, ret->file, sizeof(ret->file));
    gf_fmt(ret->function, sizeof(ret->function), "%s", frame->function);
    ret->line = frame->line;
}

/*
 * Returns the offset of the first futex in a condition variable, which depends on glibc's version.
 * The futexes follow the word with the flags. In a new condition variable, this word alone is not 0
 * if its clock is the monotonic one.
 */
static size_t find_condition_futex(void)
{
    pthread_condattr_t monotonic;
    pthread_cond_t condition;
    unsigned words[sizeof(condition) / sizeof(unsigned)];
    size_t i = 0;

    memset(&condition, 0, sizeof(condition));
    if (pthread_condattr_init(&monotonic) != 0)
        return 0;
    if (pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0)
        pthread_cond_init(&condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    memcpy(words, &condition, sizeof(words));
    while (i < GF_ARRAY_LEN(words) && !words[i])
        i++;
    return i < GF_ARRAY_LEN(words) ? (i + 1) * sizeof(*words) : 0;
}

void gf_python_line_open(bool (*find)(struct gf_python *ret))
{
    struct gf_python found;

    if (!interpreter.layout && find && find(&found)) {
        interpreter.layout = gf_pystack_layout(found.version);
        interpreter.runtime = found.runtime;
        interpreter.runtime_size = found.runtime_size;
        interpreter.condition_futex = find_condition_futex();
    }
}

struct walks {
    struct gf_pystack_frame frames[2][FRAMES];
    size_t count[2];
    bool collects[2], reached[2]; /* reached: it has the outermost frame */
    bool whole;                   /* both have the outermost frame */
    size_t common;
};

static const struct gf_pystack_frame *frame_from_end(const struct walks *w, int which, size_t i)
{
    return &w->frames[which][w->count[which] - 1 - i];
}

/* Reads at most `most` frames, twice, because the thread runs meanwhile. */
static void read_twice(pid_t pid, uintptr_t state, size_t most, struct walks *ret)
{
    for (int i = 0; i < 2; i++) {
        const struct gf_pystack python = read_anew(pid);
        ret->collects[i] = gf_pystack_is_collecting(&python, state);
        ret->count[i] = gf_pystack_frames(&python, state, ret->frames[i], most, &ret->reached[i]);
    }
    ret->whole = ret->reached[0] && ret->reached[1];
    ret->common = 0;
    const size_t fewest = gf_min(ret->count[0], ret->count[1]);
    while (ret->common < fewest &&
           is_equal(frame_from_end(ret, 0, ret->common), frame_from_end(ret, 1, ret->common)))
        ret->common++;
    /* Without the outermost frames, only equal walks have the same frames at their ends. */
    if (!ret->whole && (ret->count[0] != ret->count[1] || ret->common < ret->count[0]))
        ret->common = 0;
}

/* Whether a frame that is not in both walks is in the program's own code. */
static bool has_left_own(const struct walks *w)
{
    for (int which = 0; which < 2; which++)
        for (size_t i = w->common; i < w->count[which]; i++)
            if (!gf_path_is_python_library(frame_from_end(w, which, i)->file))
                return true;
    return false;
}

/* Fills in *ret. Returns false if the frames do not show the program's own line. */
static bool find_place(const struct walks *w, bool last_try, struct gf_python_place *ret)
{
    const struct gf_pystack_frame *first = &w->frames[0][w->count[0] - w->common];

    if (!w->common || has_left_own(w))
        return false;
    const size_t at = gf_pystack_own_frame(first, w->common, w->whole);
    const bool is_own = !gf_path_is_python_library(first[at].file);
    if (!is_own && !w->whole && !last_try)
        return false;
    set_line(&first[at], &ret->line);
    ret->frames = first;
    ret->count = is_own ? at : w->common;
    ret->all = w->common;
    ret->collects = w->collects[0] && w->collects[1];
    return true;
}

/* Writes frames from the end of the text to its start, so that the innermost ones fit. */
static void write_path(const struct walks *w, char ret[GF_PYTHON_PATH])
{
    char text[192], path[GF_PYTHON_PATH] = "";
    size_t at = sizeof(path) - 1;
    const bool is_same = w->whole && w->common == w->count[0] && w->common == w->count[1];

    for (size_t i = 0; is_same && i < w->common; i++) {
        const struct gf_pystack_frame *frame = &w->frames[0][i];
        gf_fmt(text, sizeof(text), "%s:%s", gf_path_file_name(frame->file), frame->function);
        for (char *p = text; (p = strchr(p, ';'));)
            *p = ':';
        if (strlen(text) + sizeof("...;;") > at)
            strcpy(text, "...");
        path[--at] = ';';
        at -= strlen(text);
        memcpy(path + at, text, strlen(text));
        if (strcmp(text, "...") == 0)
            break;
    }
    memcpy(ret, path + at, sizeof(path) - at);
    if (*ret)
        ret[strlen(ret) - 1] = '\0'; /* the last semicolon */
}

bool gf_python_line_read(pid_t pid, uintptr_t state, struct gf_python_place *ret,
                         char ret_path[GF_PYTHON_PATH])
{
    static struct walks walks;

    if (!interpreter.layout || !state)
        return false;
    read_twice(pid, state, FEW, &walks);
    bool found = find_place(&walks, false, ret);
    if (!walks.whole && (!found || ret_path)) {
        read_twice(pid, state, FRAMES, &walks);
        found = find_place(&walks, true, ret);
    }
    if (ret_path)
        write_path(&walks, ret_path);
    return found;
}

bool gf_python_line_has_frames(uintptr_t state)
{
    const struct gf_pystack python = read_anew(0);
    struct gf_pystack_frame frame;

    return python.layout && state && gf_pystack_frames(&python, state, &frame, 1, NULL);
}

/* Calls `is_it` for at most `most` other thread states of the interpreter, until it returns true. */
static bool find_neighbour(uintptr_t state, unsigned most,
                           bool (*is_it)(uintptr_t state, void *closure), void *closure)
{
    uintptr_t of_caller[GF_STATE_WORDS], words[GF_STATE_WORDS];

    if (!interpreter.layout || !gf_safe_read(state, of_caller, sizeof(of_caller)))
        return false;
    for (int way = gf_state_previous; way <= gf_state_next; way++)
        for (uintptr_t at = of_caller[way];
             at && most && gf_safe_read(at, words, sizeof(words)) &&
             words[gf_state_interpreter] == of_caller[gf_state_interpreter];
             most--, at = words[way])
            if (is_it(at, closure))
                return true;
    return false;
}

static bool read_if_backward(uintptr_t state, void *closure)
{
    struct gf_python_place *const place = closure;
    return gf_python_line_read(0, state, place, NULL) &&
           gf_wait_has_frame("torch/autograd/function.py", "apply", place->frames, place->all);
}

bool gf_python_line_read_backward(uintptr_t state, struct gf_python_place *ret)
{
    return find_neighbour(state, NEIGHBOURS, read_if_backward, ret);
}

struct holder {
    uintptr_t futex;
    struct gf_python_line *ret;
};

static bool read_if_holder(uintptr_t state, void *closure)
{
    const struct holder *const holder = closure;
    const struct gf_pystack python = read_anew(0);
    struct gf_pystack_frame frame;

    if (!gf_pystack_holder(&python, state, holder->futex, &frame) ||
        gf_path_is_python_library(frame.file))
        return false;
    set_line(&frame, holder->ret);
    return true;
}

void gf_python_line_read_holder(uintptr_t state, uintptr_t futex, struct gf_python_line *ret)
{
    find_neighbour(state, HOLDERS, read_if_holder, &(struct holder){futex, ret});
}

bool gf_python_line_is_in_queue(pid_t pid, uintptr_t state, uintptr_t futex)
{
    const struct gf_pystack python = read_anew(pid);

    return python.layout && state && gf_pystack_is_in_queue(&python, state, futex);
}

uintptr_t gf_python_line_runtime(size_t *ret_size)
{
    *ret_size = interpreter.runtime_size;
    return interpreter.layout ? interpreter.runtime : 0;
}

uintptr_t gf_python_line_lock_holder(uintptr_t futex, bool *ret_is_lock)
{
    const uintptr_t condition = (futex & ~(uintptr_t)7) - interpreter.condition_futex;
    uintptr_t holder = 0;

    *ret_is_lock = interpreter.layout && futex - interpreter.runtime < interpreter.runtime_size;
    if (*ret_is_lock && interpreter.condition_futex &&
        !gf_safe_read(condition - HOLDER_BEFORE, &holder, sizeof(holder)))
        holder = 0;
    return holder;
}
