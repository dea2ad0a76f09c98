/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's settings. The library passes the settings by jemalloc's symbol malloc_conf. The
 * library does not use the environment for that, because child processes and other copies of
 * jemalloc would read the settings there. A user's MALLOC_CONF overrides each setting.
 */
#include "preload/heap/heap.h"

#include "base/fmt.h"
#include "base/loader.h"
#include "base/symbols.h"
#include "config/options.h"
#include "config/startup_env.h"
#include "os/launch.h"
#include "preload/heap/arenas.h"
#include "preload/heap/big.h"
#include "preload/heap/boot.h"
#include "preload/heap/family.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/fork.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/jemalloc_conf.h"
#include "preload/heap/jemalloc_sys.h"
#include "preload/heap/mappings.h"
#include "preload/heap/mode.h"
#include "preload/heap/passthrough.h"
#include "preload/heap/reclaim.h"
#include "preload/heap/sample.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <ucontext.h>

enum kind { kind_bool, kind_size, kind_ssize, kind_unsigned };

struct setting {
    const char *name;
    enum kind kind;
    const char *reason;
    char wanted[12]; /* "" keeps jemalloc's default */
};

#define DIRTY_DECAY_MS "-1"
#define MUZZY_DECAY_MS "0"

/* docs/heap.md has the measurements behind these values. */
static struct setting settings[] = {
    {"oversize_threshold", kind_size,
     "large blocks stay in their thread's arena, and are not purged at each free", "0"},
    {"background_thread", kind_bool,
     "the program would see a thread that it did not create; forked children would lack it",
     "false"},
    {"dirty_decay_ms", kind_ssize,
     "the library's budget bounds the freed pages, and purges the oldest first", DIRTY_DECAY_MS},
    {"muzzy_decay_ms", kind_ssize, "purged pages are returned at once, not freed lazily",
     MUZZY_DECAY_MS},
    {"lg_extent_max_active_fit", kind_size,
     "a block may be cut from freed pages of any size, so that they are used before new ones",
     "20"},
    {"tcache_max", kind_size,
     "up to this size, a malloc and a free take 50 ns together, instead of 250 to 400 ns",
     "262144"},
    {"tcache_nslots_large", kind_unsigned,
     "a thread caches at most this many blocks of a large size class, and at most 256 KiB or one "
     "block",
     GF_STRINGIFY(GF_JEMALLOC_LARGE_SLOTS)},
    {"tcache_gc_incr_bytes", kind_size,
     "a thread trims its cache each time it has allocated this much, not every 64 KiB", "4194304"},
    {"narenas", kind_unsigned,
     "one for each CPU that the process may use; jemalloc's default, four for each CPU, retains "
     "four times the memory",
     ""},
};
#define NARENAS (GF_ARRAY_LEN(settings) - 1)

static char conf[256];
const char *je_malloc_conf = conf;

/* Called once, before jemalloc's first call. */
static void gf_settings_apply(const struct gf_startup_env *startup)
{
    size_t at = 0;

    if (startup->known)
        gf_fmt(settings[NARENAS].wanted, sizeof(settings[0].wanted), "%u",
               gf_set_count(&startup->cpus));
    for (size_t i = 0; i < GF_ARRAY_LEN(settings); i++)
        if (*settings[i].wanted)
            at += (size_t)gf_fmt(conf + at, sizeof(conf) - at, "%s%s:%s", at ? "," : "",
                                 settings[i].name, settings[i].wanted);
    /*
     * jemalloc creates arena 0, the main thread's, before it reads opt.oversize_threshold. So this
     * arena would keep a threshold of 8 MiB. Each larger block that the main thread frees would be
     * purged at once, so each batch would cause page faults. The arena copies its threshold from
     * this variable. A mallctl could set the threshold later, but would make jemalloc build its
     * whole control tree in every short-lived process. A user's threshold in MALLOC_CONF still
     * applies to all other arenas.
     */
    je_oversize_threshold = SIZE_MAX;
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

/* gf_heap_ops.setting */
static bool gf_settings_read(size_t i, struct gf_heap_setting *ret)
{
    if (i >= GF_ARRAY_LEN(settings))
        return false;
    *ret = (struct gf_heap_setting){.name = settings[i].name};
    if (!read_back(&settings[i], ret->value, sizeof(ret->value)))
        gf_fmt(ret->value, sizeof(ret->value), "unknown");
    ret->ours = strcmp(ret->value, settings[i].wanted) == 0;
    /* If a user has set the value, the reason for it is unknown. */
    ret->reason = ret->ours ? settings[i].reason : NULL;
    return true;
}

/*
 * glibc aligns every block to 16 bytes, and programs rely on that. jemalloc aligns blocks of its
 * 8-byte class to 8. So this function changes the table by which jemalloc finds a size's class.
 * Sizes of up to 8 bytes then get the 16-byte class, which costs no time per call. Called once,
 * after jemalloc has started.
 */
static void gf_settings_align_tiny(void)
{
    for (uint8_t class = 0; class < 4; class ++)
        if (je_sz_index2size_tab[class] == 16)
            je_sz_size2index_tab[0] = je_sz_size2index_tab[1] = class;
}

/*
 * Whether the decay times in force are set by the library, and not by a user. Call this after
 * jemalloc has started.
 */
static bool gf_settings_decay_is_ours(void)
{
    return je_opt_dirty_decay_ms == strtol(DIRTY_DECAY_MS, NULL, 10) &&
           je_opt_muzzy_decay_ms == strtol(MUZZY_DECAY_MS, NULL, 10);
}

static struct gf_heap_ops ops;
static char reason[160];
static atomic_flag taken = ATOMIC_FLAG_INIT; /* set by the thread that decides the mode */
static __thread bool deciding;               /* true while this thread decides the mode */

static const char *object_before(void)
{
    struct gf_symbol first, self;

    if (!gf_symbol_find_allocator("malloc", NULL, &first) || !gf_symbol_holder(&ops, &self) ||
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
    for (const void *self = &ops;
         gf_symbol_find_allocator("malloc", self, &next) && next.base != libc; self = next.address)
        if (!gf_own_image_is(next.base))
            return next.object;
    return NULL;
}

static void make_first_block(void)
{
    je_free(je_malloc(1));
}

#define START_STACK ((size_t)32 << 10)

/*
 * Starts jemalloc, which needs 11 KiB of stack. The program's first block may be allocated on a smaller one
 * (makecontext, sigaltstack).
 */
static void start_on_own_stack(void)
{
    static struct {
        ucontext_t here, there; /* each has 1 KiB */
        char *stack;
    } start;

    start.stack = gf_scratch_take(START_STACK);
    bool done = start.stack && getcontext(&start.there) == 0;
    if (done) {
        start.there.uc_stack = (stack_t){.ss_sp = start.stack, .ss_size = START_STACK};
        start.there.uc_link = &start.here;
        makecontext(&start.there, make_first_block, 0);
        done = swapcontext(&start.here, &start.there) == 0; /* a filter may refuse rt_sigprocmask */
    }
    if (!done)
        make_first_block();
    gf_scratch_give(start.stack, START_STACK);
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
    gf_pool_init();
    je_malloc_message = gf_conf_keep_message;
    start_on_own_stack();
    je_malloc_message = NULL;
    gf_monitored_call_start();
    gf_settings_align_tiny();
    /* Whether a process with an engine started this process, or one that started this process. */
    const bool engines_child = gf_launch_variable(gf_startup_env()->envp, GF_NAME_ENGINE);
    gf_reclaim_init(gf_settings_decay_is_ours(), engines_child);
    gf_big_init(!je_opt_prof && !je_opt_junk_alloc && !je_opt_zero);
    gf_huge_init(options->profile, engines_child);
    if (je_opt_prof)
        gf_profile_start();
}

/*
 * Twice as much as jemalloc maps at its start. If such a mapping failed, jemalloc would write to
 * address NULL. Under a limit, what jemalloc maps must be a small part of what the program can use.
 */
#define START_SPACE ((size_t)16 << 20)
#define START_SPACE_LIMITED ((size_t)256 << 20)

/*
 * The kernel populates the writable trial after mlockall(MCL_FUTURE), so that trial is small. The large
 * one does not count against RLIMIT_DATA. RLIMIT_DATA is compared without what the program already uses.
 */
static bool is_cramped(void)
{
    const uint64_t limit = gf_reclaim_read_limits();

    return !gf_mappings_fit_writable(START_SPACE) || limit < START_SPACE_LIMITED ||
           (limit != RLIM_INFINITY && !gf_mappings_fit(START_SPACE_LIMITED));
}

static void decide_mode(void)
{
    struct gf_mode_facts facts = {
        .options = gf_startup_env_options(),
        .page = getauxval(AT_PAGESZ),
        .jemalloc_page = GF_JEMALLOC_PAGE,
        .before = object_before(),
        .behind = object_behind(),
        .cramped = is_cramped(),
    };

    facts.duplicate = facts.before && gf_own_image_before(&ops);
    facts.called_inside = gf_boot_used();
    ops.mode = gf_mode_decide(&facts, reason, sizeof(reason), &ops.mode_reason);
    if (ops.mode == gf_heap_mode_replace) {
        start_jemalloc();
        return;
    }
    gf_passthrough_resolve();
    if (facts.options->mode == gf_mode_on && facts.options->heap != gf_heap_off)
        ops.time_passthrough = gf_timed_passthrough_start;
    gf_mode_set(gf_heap_mode_passthrough);
}

GF_COLD static bool decide_once(void)
{
    gf_libc_bind();
    gf_keep_errno();
    const bool first = !atomic_flag_test_and_set_explicit(&taken, memory_order_acquire);

    if (first) {
        const uint64_t signals = gf_symbols_block_signals();
        deciding = true;
        decide_mode();
        gf_fork_register_early();
        deciding = false;
        gf_symbols_unblock_signals(signals);
    }
    while (!deciding && gf_mode_get() == gf_heap_mode_undecided)
        sched_yield();
    return first;
}

bool gf_heap_init(void)
{
    return gf_unlikely(gf_mode_get() == gf_heap_mode_undecided) && decide_once();
}

const struct gf_heap_ops *gf_heap_ops(void)
{
    return &ops;
}
