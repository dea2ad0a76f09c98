/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/heap.h"

#include "base/loader.h"
#include "base/symbols.h"
#include "config/options.h"
#include "config/startup_env.h"
#include "preload/heap/arenas.h"
#include "preload/heap/boot.h"
#include "preload/heap/callouts/big.h"
#include "preload/heap/callouts/fork_gate.h"
#include "preload/heap/callouts/jemalloc_conf.h"
#include "preload/heap/callouts/jemalloc_profile.h"
#include "preload/heap/callouts/monitored_call.h"
#include "preload/heap/callouts/reclaim.h"
#include "preload/heap/fork.h"
#include "preload/heap/info.h"
#include "preload/heap/jemalloc/jemalloc.h"
#include "preload/heap/mode.h"
#include "preload/heap/pages/first_touch.h"
#include "preload/heap/pages/huge.h"
#include "preload/heap/pages/mappings.h"
#include "preload/heap/passthrough.h"
#include "preload/heap/sample.h"
#include "preload/heap/settings.h"
#include "preload/heap/timed_passthrough.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>

static struct gf_heap_ops ops;
static char reason[160];
static atomic_flag taken = ATOMIC_FLAG_INIT; /* set by the thread that decides the mode */
static __thread bool deciding;               /* true while this thread decides the mode */

static const char *object_before(void)
{
    struct gf_symbol first, self;

    if (!gf_symbol_find("malloc", NULL, &first) || !gf_symbol_holder(&ops, &self) ||
        first.base == self.base)
        return NULL;
    return first.object;
}

/*
 * Returns the object that would serve malloc without this library, or NULL if libc would. Skips
 * other copies of the library, because they leave malloc to this copy.
 */
static const char *object_behind(void)
{
    const uintptr_t libc = gf_libc_base();
    struct gf_symbol next;

    if (!libc)
        return NULL;
    for (const void *self = &ops; gf_symbol_find("malloc", self, &next) && next.base != libc;
         self = next.address)
        if (!gf_own_image_is(next.base))
            return next.object;
    return NULL;
}

/* Whether a process with an engine started this process, or one that started this process. */
static bool is_engines_child(char *const *envp)
{
    static const char mark[] = GF_NAME_ENGINE "=";

    for (; envp && *envp; envp++)
        if (strncmp(*envp, mark, sizeof(mark) - 1) == 0)
            return true;
    return false;
}

static void start_jemalloc(void)
{
    const struct gf_options *options = gf_startup_env_options();

    gf_settings_apply(gf_startup_env());
    ops.set_node = gf_mappings_set_node;
    ops.refused = gf_mappings_refused;
    ops.ranges = gf_mappings_ranges;
    ops.share_main = gf_arenas_share_main;
    ops.set_cpus = gf_arenas_set_cpus;
    ops.stats = gf_info_heap;
    ops.allow_quiesce = gf_fork_gate_allow;
    ops.sample = gf_sample_start;
    ops.setting = gf_settings_read;
    ops.ignored_conf = gf_conf_ignored;
    ops.huge = gf_huge_read;
    ops.first_touch = gf_first_touch_read;
    ops.retained = gf_reclaim_read;
    ops.watch_retained = gf_reclaim_watch;
    ops.purge = gf_reclaim_purge;
    ops.purge_unused = gf_reclaim_unused;
    /*
     * The mode is set before jemalloc starts, so that calls of malloc during the start go to
     * jemalloc, which can handle them. The boot pool could not free jemalloc's blocks.
     */
    gf_mode_set(gf_heap_mode_replace);
    gf_mappings_init();
    gf_pool_init();
    gf_conf_begin();
    je_free(je_malloc(1));
    gf_conf_end();
    gf_monitored_call_start();
    gf_settings_align_tiny();
    gf_reclaim_init(gf_settings_decay_is_ours(), is_engines_child(gf_startup_env()->envp));
    gf_big_init(!je_opt_prof);
    gf_huge_init(options->profile);
    if (je_opt_prof)
        gf_profile_start();
}

/*
 * Twice as much as jemalloc maps at its start. If such a mapping failed, jemalloc would write to
 * address NULL.
 */
#define START_SPACE ((size_t)16 << 20)

static void decide_mode(void)
{
    struct gf_mode_facts facts = {
        .options = gf_startup_env_options(),
        .page = getauxval(AT_PAGESZ),
        .jemalloc_page = GF_JEMALLOC_PAGE,
        .before = object_before(),
        .behind = object_behind(),
        .cramped = !gf_mappings_fit_writable(START_SPACE),
    };

    facts.duplicate = facts.before && gf_own_image_before(&ops);
    facts.called_inside = gf_boot_used();
    ops.mode = gf_mode_decide(&facts, reason, sizeof(reason), &ops.mode_reason);
    if (ops.mode == gf_heap_mode_replace) {
        start_jemalloc();
        return;
    }
    gf_passthrough_resolve();
    gf_timed_passthrough_prepare();
    if (facts.options->mode == gf_mode_on && facts.options->heap != gf_heap_off)
        ops.time_passthrough = gf_timed_passthrough_start;
    gf_mode_set(gf_heap_mode_passthrough);
}

GF_COLD static bool decide_once(void)
{
    gf_libc_bind();
    const int error = errno;
    const bool first = !atomic_flag_test_and_set_explicit(&taken, memory_order_acquire);

    if (first) {
        deciding = true;
        decide_mode();
        gf_fork_register_early();
        deciding = false;
    }
    while (!deciding && gf_mode_get() == gf_heap_mode_undecided)
        sched_yield();
    errno = error;
    return first;
}

bool gf_heap_init(void)
{
    return gf_unlikely(gf_mode_get() == gf_heap_mode_undecided) && decide_once();
}

bool gf_heap_unmaps(void)
{
    return gf_monitored_call_now();
}

void gf_heap_limit(int resource, uint64_t soft)
{
    if (gf_mode_is_jemalloc())
        gf_reclaim_limit(resource, soft);
}

const struct gf_heap_ops *gf_heap_ops(void)
{
    return &ops;
}
