/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/settings.h"

#include "base/fmt.h"
#include "heap/jemalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum kind { kind_bool, kind_size, kind_ssize, kind_unsigned };

struct setting {
    const char *name;
    enum kind kind;
    const char *reason;
    char training[12], inference[12]; /* "" leaves jemalloc's own */
};

/* The measurements behind these: docs/heap.md. */
static struct setting settings[] = {
    {"oversize_threshold", kind_size,
     "large blocks stay in their thread's arena, and are not purged at each free", "0", "0"},
    {"background_thread", kind_bool,
     "the program would see a thread that it did not make, and forked children have none", "false",
     "false"},
    {"dirty_decay_ms", kind_ssize,
     "freed pages stay for the next batch, and then go to whoever needs memory", "10000", "2000"},
    {"muzzy_decay_ms", kind_ssize,
     "lent pages stay until the kernel takes them: reuse costs no fault", "-1", "-1"},
    {"tcache_max", kind_size,
     "a pair of malloc and free up to this size takes 50 ns instead of 250 to 400", "1048576",
     "1048576"},
    {"tcache_nslots_large", kind_unsigned,
     "a thread holds on to at most so many blocks of each large class", "8", "8"},
    {"tcache_gc_incr_bytes", kind_size,
     "a thread looks over its cache each time it has allocated so much, not each 64 KiB", "4194304",
     "4194304"},
    {"narenas", kind_unsigned,
     "one for each CPU that the process may use: jemalloc's four keep memory four times over", "",
     ""},
};
#define NARENAS (GF_ARRAY_LEN(settings) - 1)

static char conf[256];
const char *je_malloc_conf = conf;

static enum gf_profile profile;

static unsigned arena_limit; /* 0: jemalloc chooses */
static unsigned arena_turn;
static pthread_mutex_t aside_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Arena 0, the main thread's, is born before jemalloc has read opt.oversize_threshold and keeps a
 * threshold of 8 MiB for ever: every larger free of a Python main thread is purged at once, and
 * every batch faults in again. It takes the threshold from this variable, so setting that before
 * the first call mends it for nothing; the mallctl that could mend it later builds jemalloc's
 * whole control tree in every short-lived process. A threshold in a user's MALLOC_CONF then holds
 * for all arenas but this one, as it always has.
 */
static void mend_arena_0(void)
{
    je_oversize_threshold = SIZE_MAX;
}

static const char *wanted(const struct setting *setting)
{
    return profile == gf_profile_inference ? setting->inference : setting->training;
}

void gf_settings_apply(const struct gf_birth *birth)
{
    size_t at = 0;

    profile = gf_birth_options()->profile;
    if (birth->known) {
        const unsigned cpus = gf_set_count(&birth->cpus);
        gf_fmt(settings[NARENAS].training, sizeof(settings[0].training), "%u", cpus);
        gf_fmt(settings[NARENAS].inference, sizeof(settings[0].inference), "%u", cpus);
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(settings); i++)
        if (*wanted(&settings[i]))
            at += (size_t)gf_fmt(conf + at, sizeof(conf) - at, "%s%s:%s", at ? "," : "",
                                 settings[i].name, wanted(&settings[i]));
    mend_arena_0();
}

static bool read_back(const struct setting *setting, char *ret, size_t size)
{
    union {
        bool truth;
        size_t size;
        ssize_t ssize;
        unsigned number;
    } value = {0};
    static const size_t sizes[] = {sizeof(bool), sizeof(size_t), sizeof(ssize_t), sizeof(unsigned)};
    size_t length = sizes[setting->kind];
    char name[48];

    gf_fmt(name, sizeof(name), "opt.%s", setting->name);
    if (je_mallctl(name, &value, &length, NULL, 0) != 0)
        return false;
    switch (setting->kind) {
    case kind_bool:
        gf_fmt(ret, size, "%s", value.truth ? "true" : "false");
        break;
    case kind_size:
        gf_fmt(ret, size, "%zu", value.size);
        break;
    case kind_ssize:
        gf_fmt(ret, size, "%zd", value.ssize);
        break;
    case kind_unsigned:
        gf_fmt(ret, size, "%u", value.number);
        break;
    }
    return true;
}

bool gf_settings_read(size_t i, struct gf_heap_setting *ret)
{
    if (i >= GF_ARRAY_LEN(settings))
        return false;
    *ret = (struct gf_heap_setting){.name = settings[i].name, .reason = settings[i].reason};
    if (!read_back(&settings[i], ret->value, sizeof(ret->value)))
        gf_fmt(ret->value, sizeof(ret->value), "unknown");
    ret->ours = strcmp(ret->value, wanted(&settings[i])) == 0;
    return true;
}

/*
 * glibc aligns every block to 16; jemalloc's class of 8 bytes does not, and code that was built
 * for glibc relies on it. All ways from a size to a class go through this table, so that from here
 * on nothing is taken from that class, at no cost to a call.
 */
void gf_settings_align_tiny(void)
{
    for (uint8_t class = 0; class < 4; class ++)
        if (je_sz_index2size_tab[class] == 16)
            je_sz_size2index_tab[0] = je_sz_size2index_tab[1] = class;
}

bool gf_settings_decay_is_ours(void)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(settings); i++) {
        const bool dirty = strcmp(settings[i].name, "dirty_decay_ms") == 0;
        const ssize_t now = dirty ? je_opt_dirty_decay_ms : je_opt_muzzy_decay_ms;
        if ((dirty || strcmp(settings[i].name, "muzzy_decay_ms") == 0) &&
            now != strtol(wanted(&settings[i]), NULL, 10))
            return false;
    }
    return true;
}

void gf_settings_set_cpus(unsigned cpus)
{
    unsigned arenas = 0;
    size_t size = sizeof(arenas);

    if (je_mallctl("opt.narenas", &arenas, &size, NULL, 0) != 0 || cpus >= arenas)
        cpus = 0;
    __atomic_store_n(&arena_limit, cpus, __ATOMIC_RELAXED);
}

static void add_threads(void *arena, unsigned times, bool internal, void (*add)(void *, bool))
{
    for (unsigned i = 0; i < times; i++)
        add(arena, internal);
}

/*
 * A new thread takes an arena that has none before one is made, for the program's calls and for jemalloc's own:
 * a thread that was moved (below) counts here for the former and there for the latter. One at a time: two that
 * take the same threads off find an arena of less than none.
 */
void gf_settings_thread_aside(void)
{
    pthread_mutex_lock(&aside_lock);
    void *const first = __atomic_load_n(&je_arenas[0], __ATOMIC_ACQUIRE);
    const unsigned threads = je_arena_nthreads_get(first, false), own = je_arena_nthreads_get(first, true);

    add_threads(first, threads, false, je_arena_nthreads_dec);
    add_threads(first, own, true, je_arena_nthreads_dec);
    je_free(je_malloc(1));
    add_threads(first, threads, false, je_arena_nthreads_inc);
    add_threads(first, own, true, je_arena_nthreads_inc);
    pthread_mutex_unlock(&aside_lock);
}

void gf_settings_in_child(void)
{
    aside_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

void gf_settings_thread_born(void)
{
    const unsigned limit = __atomic_load_n(&arena_limit, __ATOMIC_RELAXED);

    if (gf_likely(limit == 0))
        return;
    const int error = errno;
    unsigned arena = __atomic_fetch_add(&arena_turn, 1, __ATOMIC_RELAXED) % limit;
    /* Refused under percpu_arena, which already does better. */
    je_mallctl("thread.arena", NULL, NULL, &arena, sizeof(arena));
    errno = error;
}
