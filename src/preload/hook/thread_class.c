/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/thread_class.h"

#include "base/atomic.h"

#include <errno.h>
#include <sched.h>

#define ENTRIES 4096 /* a power of two */
#define WINDOW 32    /* number of entries that a look-up of an id tries */

struct entry {
    _Atomic uint64_t key;    /* thread id << 8 | class; 0: free */
    _Atomic uint64_t before; /* digest of the mask before the first change; 0 if unchanged */
};

static struct entry entries[ENTRIES];
static _Atomic bool used, overflowed;

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

static struct entry *entry_at(pid_t tid, unsigned step)
{
    const uint32_t home = (uint32_t)tid * UINT32_C(2654435761) >> 20;
    return &entries[(home + step) % ENTRIES];
}

static uint64_t mask_digest(const struct gf_cpus *mask)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < GF_ARRAY_LEN(mask->word); i++) {
        hash ^= mask->word[i];
        hash *= UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash | 1;
}

static struct entry *find_entry(pid_t tid)
{
    for (unsigned step = 0; step < WINDOW; step++) {
        struct entry *entry = entry_at(tid, step);
        const uint64_t key = gf_load_acquire(&entry->key);
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

/*
 * Takes a free entry, or the entry of a thread that has ended. Returns NULL if the table overflows.
 */
static struct entry *claim_entry(pid_t tid, enum gf_thread_class class)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned step = 0; step < WINDOW; step++) {
            struct entry *entry = entry_at(tid, step);
            uint64_t key = gf_load_relaxed(&entry->key);
            if (key && (pass == 0 || !is_gone(key_tid(key))))
                continue;
            if (gf_cas_acq_rel(&entry->key, &key, make_key(tid, class))) {
                gf_store_release(&entry->before, 0);
                return entry;
            }
        }
    }
    gf_store_relaxed(&overflowed, true);
    return NULL;
}

enum gf_thread_class gf_thread_class_get(pid_t tid)
{
    struct entry *entry = find_entry(tid);
    const uint64_t key = entry ? gf_load_relaxed(&entry->key) : 0;
    if (key && key_tid(key) == tid)
        return key_class(key);
    return gf_load_relaxed(&overflowed) ? gf_thread_self_set : gf_thread_program;
}

void gf_thread_class_set(pid_t tid, enum gf_thread_class class)
{
    struct entry *entry = find_entry(tid);
    if (class == gf_thread_program) {
        if (entry)
            gf_store_release(&entry->key, 0);
        return;
    }
    gf_store_relaxed(&used, true);
    if (entry) {
        gf_store_relaxed(&entry->before, 0);
        gf_store_release(&entry->key, make_key(tid, class));
    } else {
        claim_entry(tid, class);
    }
}

bool gf_thread_class_used(void)
{
    return gf_load_relaxed(&used);
}

void gf_thread_class_affinity(pid_t tid, const struct gf_cpus *before, const struct gf_cpus *after)
{
    struct entry *entry = find_entry(tid);
    if (!entry) {
        gf_store_relaxed(&used, true);
        entry = claim_entry(tid, gf_thread_self_set);
        if (entry)
            gf_store_release(&entry->before, mask_digest(before));
        return;
    }
    const uint64_t first = gf_load_acquire(&entry->before);
    if (key_class(gf_load_relaxed(&entry->key)) == gf_thread_self_set && first &&
        first == mask_digest(after))
        gf_store_release(&entry->key, 0);
}
