/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/heap.h"

#include "base/copies.h"
#include "config/birth.h"
#include "heap/family.h"
#include "heap/gate.h"
#include "heap/huge.h"
#include "heap/info.h"
#include "heap/jemalloc.h"
#include "heap/keep.h"
#include "heap/libc_names.h"
#include "heap/mode.h"
#include "heap/profile.h"
#include "heap/sample.h"
#include "heap/settings.h"
#include "heap/system.h"
#include "heap/touch.h"
#include "heap/watched.h"

#include <errno.h>
#include <sched.h>
#include <sys/auxv.h>

enum gf_heap_mode gf_heap_mode_now;

static struct gf_heap_ops ops;
static char reason[160];
static bool taken;             /* by the thread that decides */
static __thread bool deciding; /* that thread */

static const char *object_before(void)
{
    struct gf_symbol first, self;

    if (!gf_symbol_find("malloc", NULL, &first) || !gf_symbol_holder(&ops, &self) ||
        first.base == self.base)
        return NULL;
    return first.object;
}

static const char *object_behind(void)
{
    struct gf_symbol next, libc;

    if (!gf_symbol_find("__libc_start_main", NULL, &libc))
        return NULL;
    for (const void *self = &ops; gf_symbol_find("malloc", self, &next) && next.base != libc.base; self = next.address)
        if (!gf_copy_is(next.base)) /* which leaves it to us */
            return next.object;
    return NULL;
}

static void start_replace(void)
{
    gf_settings_apply(gf_birth());
    ops.set_node = gf_system_set_node;
    ops.refused = gf_system_refused;
    ops.refused_errno = gf_system_refused_errno;
    ops.ranges = gf_system_ranges;
    ops.set_cpus = gf_settings_set_cpus;
    ops.stats = gf_info_heap;
    ops.ease_forks = gf_gate_allow;
    ops.sample = gf_sample_start;
    ops.setting = gf_settings_read;
    ops.huge = gf_huge_read;
    ops.touch = gf_touch_read;
    ops.kept = gf_keep_read;
    ops.watched = gf_keep_watched;
    ops.lend = gf_keep_lend;
    ops.give_back = gf_keep_give_back;
    /* From here on jemalloc copes with calls that come while it starts; the boot pool would not. */
    __atomic_store_n(&gf_heap_mode_now, gf_heap_mode_replace, __ATOMIC_RELEASE);
    gf_system_init();
    je_free(je_malloc(1));
    gf_settings_align_tiny();
    gf_keep_init(gf_birth_options());
    gf_huge_init(gf_birth_options());
    if (je_opt_prof)
        gf_profile_start();
    if (gf_heap_ready)
        gf_heap_ready();
}

/* jemalloc's start maps half of it. Where the kernel refuses a part of that, it writes through NULL. */
#define START_ROOM ((size_t)16 << 20)

static void decide(void)
{
    struct gf_mode_facts facts = {
        .options = gf_birth_options(),
        .page = getauxval(AT_PAGESZ),
        .jemalloc_page = GF_JEMALLOC_PAGE,
        .before = object_before(),
        .behind = object_behind(),
        .cramped = !gf_system_has_room(START_ROOM),
    };

    facts.second = facts.before && gf_copy_before(&ops);
    facts.called_inside = gf_boot_used();
    ops.mode = gf_mode_decide(&facts, reason, sizeof(reason), &ops.mode_reason);
    if (ops.mode == gf_heap_mode_replace) {
        start_replace();
        return;
    }
    gf_family_resolve();
    gf_watched_prepare();
    if (facts.options->mode == gf_mode_on && facts.options->heap != gf_heap_off)
        ops.watch = gf_watched_start;
    __atomic_store_n(&gf_heap_mode_now, gf_heap_mode_next, __ATOMIC_RELEASE);
    if (gf_heap_ready)
        gf_heap_ready();
}

static bool decided(void)
{
    return __atomic_load_n(&gf_heap_mode_now, __ATOMIC_ACQUIRE) != gf_heap_mode_undecided;
}

GF_COLD static void decide_once(void)
{
    const int error = errno;

    if (!__atomic_test_and_set(&taken, __ATOMIC_ACQUIRE)) {
        deciding = true;
        decide();
        deciding = false;
    }
    while (!deciding && !decided())
        sched_yield();
    errno = error;
}

void gf_heap_init(void)
{
    if (gf_unlikely(!decided()))
        decide_once();
}

const struct gf_family *gf_family(void)
{
    gf_heap_init();
    switch (__atomic_load_n(&gf_heap_mode_now, __ATOMIC_ACQUIRE)) {
    case gf_heap_mode_replace:
        return &gf_family_replace;
    case gf_heap_mode_sampled:
        return gf_sample_family();
    case gf_heap_mode_next:
        return &gf_family_next;
    case gf_heap_mode_undecided:
        break;
    }
    return &gf_family_boot;
}

const struct gf_heap_ops *gf_heap_ops(void)
{
    gf_heap_init();
    return &ops;
}

bool gf_heap_before_dlopen(void)
{
    static bool begun;
    static enum { unknown, leads, cannot } state;

    if (gf_heap_ops()->mode != gf_heap_mode_replace)
        return true;
    if (!__atomic_test_and_set(&begun, __ATOMIC_RELAXED)) {
        const int error = errno;
        __atomic_store_n(&state, gf_libc_names_lead_here() ? leads : cannot, __ATOMIC_RELEASE);
        errno = error;
    }
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == unknown)
        sched_yield(); /* two system calls of another thread */
    return state == leads;
}

void gf_heap_thread_aside(void)
{
    if (gf_heap_ops()->mode == gf_heap_mode_replace)
        gf_settings_thread_aside();
}

void gf_heap_thread_born(void)
{
    gf_settings_thread_born();
}
