/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/classes.h"

#include <errno.h>
#include <sched.h>

#define ENTRIES 4096 /* a power of two */
#define WINDOW 32    /* an id stands within so many places of its home */

struct entry {
    uint64_t key;    /* thread id << 8 | class; 0 free */
    uint64_t before; /* digest of the mask that the thread had before it was first set; 0 none */
};

static struct entry entries[ENTRIES];
static bool used, overflowed;

static uint64_t make_key(pid_t tid, enum gf_thread_class kind)
{
    return (uint64_t)(uint32_t)tid << 8 | (uint64_t)kind;
}

static pid_t key_tid(uint64_t key)
{
    return (pid_t)(key >> 8);
}

static enum gf_thread_class key_class(uint64_t key)
{
    return (enum gf_thread_class)(key & 0xff);
}

static struct entry *place(pid_t tid, unsigned step)
{
    const uint32_t home = (uint32_t)tid * UINT32_C(2654435761) >> 20;
    return &entries[(home + step) % ENTRIES];
}

static uint64_t digest(const struct gf_cpus *mask)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < GF_ARRAY_LEN(mask->word); i++) {
        hash ^= mask->word[i];
        hash *= UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash | 1;
}

static struct entry *find(pid_t tid)
{
    for (unsigned step = 0; step < WINDOW; step++) {
        struct entry *entry = place(tid, step);
        const uint64_t key = __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE);
        if (key && key_tid(key) == tid)
            return entry;
    }
    return NULL;
}

static bool is_gone(pid_t tid)
{
    const int error = errno;
    const bool gone = sched_getscheduler(tid) < 0 && errno == ESRCH;
    errno = error;
    return gone;
}

/* Takes a free place, else one whose thread has ended. NULL when there is none. */
static struct entry *claim(pid_t tid, enum gf_thread_class class)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned step = 0; step < WINDOW; step++) {
            struct entry *entry = place(tid, step);
            uint64_t key = __atomic_load_n(&entry->key, __ATOMIC_RELAXED);
            if (key && (pass == 0 || !is_gone(key_tid(key))))
                continue;
            if (__atomic_compare_exchange_n(&entry->key, &key, make_key(tid, class), false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
                __atomic_store_n(&entry->before, 0, __ATOMIC_RELEASE);
                return entry;
            }
        }
    }
    __atomic_store_n(&overflowed, true, __ATOMIC_RELAXED);
    return NULL;
}

enum gf_thread_class gf_classes_get(pid_t tid)
{
    const struct entry *entry = find(tid);
    const uint64_t key = entry ? __atomic_load_n(&entry->key, __ATOMIC_RELAXED) : 0;
    if (key && key_tid(key) == tid)
        return key_class(key);
    return __atomic_load_n(&overflowed, __ATOMIC_RELAXED) ? gf_thread_self_set : gf_thread_program;
}

void gf_classes_set(pid_t tid, enum gf_thread_class class)
{
    struct entry *entry = find(tid);
    if (class == gf_thread_program) {
        if (entry)
            __atomic_store_n(&entry->key, 0, __ATOMIC_RELEASE);
        return;
    }
    __atomic_store_n(&used, true, __ATOMIC_RELAXED);
    if (entry) {
        __atomic_store_n(&entry->before, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->key, make_key(tid, class), __ATOMIC_RELEASE);
    } else {
        claim(tid, class);
    }
}

bool gf_classes_used(void)
{
    return __atomic_load_n(&used, __ATOMIC_RELAXED);
}

void gf_classes_affinity(pid_t tid, const struct gf_cpus *before, const struct gf_cpus *after)
{
    struct entry *entry = find(tid);
    if (!entry) {
        __atomic_store_n(&used, true, __ATOMIC_RELAXED);
        entry = claim(tid, gf_thread_self_set);
        if (entry)
            __atomic_store_n(&entry->before, digest(before), __ATOMIC_RELEASE);
        return;
    }
    const uint64_t first = __atomic_load_n(&entry->before, __ATOMIC_ACQUIRE);
    if (key_class(__atomic_load_n(&entry->key, __ATOMIC_RELAXED)) == gf_thread_self_set && first &&
        first == digest(after))
        __atomic_store_n(&entry->key, 0, __ATOMIC_RELEASE);
}
