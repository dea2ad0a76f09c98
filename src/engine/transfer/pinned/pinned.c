/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/pinned.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/transfer/context.h"
#include "engine/transfer/huge_pool.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned_buffer.h"
#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/pinned/pinned_mapping.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"
#include "os/headroom.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/statfs.h>

static _Atomic uint64_t kept_until; /* time at which the headroom is to be read again */
/* Number of mappings that may be kept, by the last reading of the headroom. */
static _Atomic unsigned kept_most;

#define COUNT(field, n) gf_copy_stats_add(pinned.field, n)

/* The bytes that mappings of buffers may have, besides those that are kept for small blocks. */
static uint64_t gf_kept_limit_room(void)
{
    const uint64_t all = (uint64_t)gf_load_relaxed(&kept_most) * GF_PINNED_CHUNK_SIZE;
    return all ? all - gf_min(all, gf_pinned_cache_kept()) : 0;
}

/*
 * Unmaps the mappings of buffers that were kept before this time, and those that do not fit into
 * gf_kept_limit_room, the oldest first.
 */
static void gf_kept_limit_apply(uint64_t before_ns)
{
    if (gf_kept_mapping_bytes())
        COUNT(trims, gf_kept_mapping_trim(before_ns, gf_kept_limit_room()));
}

/* Unmaps all kept mappings of buffers. */
static void gf_kept_limit_trim(void)
{
    COUNT(trims, gf_kept_mapping_trim(UINT64_MAX, 0));
}

static uint64_t most_bytes(const struct gf_headroom *headroom)
{
    if (headroom->bytes < GF_TUNE_PIN_RESERVE)
        return 0;
    return gf_setup.options->pin_cache == GF_SIZE_AUTO
               ? gf_min(GF_TUNE_PIN_CACHE, headroom->bytes / 32)
               : gf_setup.options->pin_cache;
}

/*
 * Returns how many mappings of 2 MiB all contexts may keep. If the headroom is due, reads it, and
 * unmaps kept mappings of buffers that are above the limit or were not reused for a minute. node:
 * the device's; -1 if it is unknown.
 */
static unsigned gf_kept_limit_read(int node)
{
    const uint64_t now = gf_now_ns();
    struct gf_headroom headroom;

    if (now < gf_load_relaxed(&kept_until))
        return gf_load_relaxed(&kept_most);
    gf_headroom_read("", node, &headroom);
    const unsigned found = (unsigned)(most_bytes(&headroom) / GF_PINNED_CHUNK_SIZE);
    gf_store_relaxed(&kept_most, found);
    gf_store_relaxed(&kept_until, now + GF_TUNE_PIN_READ_NS);
    gf_kept_limit_apply(now - gf_min(now, GF_TUNE_PIN_KEPT_NS));
    return found;
}

void gf_kept_limit_short(void)
{
    gf_store_relaxed(&kept_most, 0);
    gf_store_relaxed(&kept_until, gf_now_ns() + GF_TUNE_PIN_READ_NS);
    gf_kept_limit_trim();
}

#define SAMPLE 64
#define TEXT ((size_t)8192) /* size of a buffer into which any line of maps fits */

struct walk {
    const char *file;
    uintptr_t reached, end; /* the part of the range that is not checked yet */
    bool plain;
};

/* Whether pages of a mapping with this name are memory that the kernel allocates at the first access. */
static bool is_named_memory(const char *name)
{
    static const char *const starts[] = {"/dev/zero (deleted)", "/memfd:", "/SYSV",
                                         "/anon_hugepage (deleted)"};
    struct statfs shm;

    for (size_t i = 0; i < GF_ARRAY_LEN(starts); i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    return strncmp(name, "/dev/shm/", 9) == 0 && statfs("/dev/shm", &shm) == 0 &&
           shm.f_type == TMPFS_MAGIC;
}

/*
 * Parses a line of maps, such as "55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0 [heap]". A name
 * that only looks like one of memory does little harm: pages are created that the driver may refuse.
 */
static void walk_line(struct walk *walk, const char *line)
{
    char *at;
    const uintptr_t from = strtoul(line, &at, 16);
    const uintptr_t to = *at == '-' ? strtoul(at + 1, &at, 16) : 0;

    if (to <= walk->reached || from >= walk->end)
        return;
    const bool writable = strncmp(at, " rw", 3) == 0 && strlen(at) > 5;
    const bool shared = writable && at[4] == 's';
    const char *inode = at;
    for (int i = 0; i < 4; i++) { /* permissions, offset, device, inode */
        inode += strspn(inode, " ");
        if (i < 3)
            inode += strcspn(inode, " ");
    }
    const char *name = inode + strcspn(inode, " ");
    name += strspn(name, " ");
    walk->plain =
        from <= walk->reached && writable &&
        (shared ? is_named_memory(name) : inode[0] == '0' && (inode[1] == ' ' || inode[1] == '\0'));
    walk->reached = walk->plain ? to : UINTPTR_MAX;
}

static void walk_file(void *closure)
{
    struct walk *walk = closure;
    char text[TEXT];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    const char *line;

    if (!gf_procfs_lines_open(&lines, walk->file))
        return;
    while (walk->reached < walk->end && (line = gf_procfs_lines_next(&lines)))
        walk_line(walk, line);
    gf_procfs_lines_close(&lines);
}

bool gf_prefault_is_plain(const char *file, uintptr_t start, uintptr_t end)
{
    struct walk walk = {.file = file, .reached = start, .end = end};

    gf_own_table_run(walk_file, &walk);
    return walk.plain && walk.reached >= end;
}

bool gf_prefault_pays(const void *at, size_t bytes)
{
    const uintptr_t start = (uintptr_t)at;

    /*
     * Most memory that a program registers was written before. For such memory gf_absent_mostly is
     * false, so no file of /proc is read.
     */
    return start + bytes > start && gf_absent_mostly(start, bytes, SAMPLE) &&
           gf_prefault_is_plain("/proc/thread-self/maps", start / gf_page_size() * gf_page_size(),
                                start + bytes);
}

#define LARGE_MOST ((size_t)64 << 30)
#define SERVED_FLAGS ((unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP))

static _Atomic bool large_off;

static bool is_on(void)
{
    return gf_setup.options->pin != gf_pin_off && gf_setup.options->mode == gf_mode_on;
}

static bool decline_alloc(enum gf_pinned_reason reason, size_t bytes)
{
    COUNT(driver_calls[reason], 1);
    COUNT(driver_bytes[reason], gf_bytes_counted(bytes));
    return false;
}

static void turn_large_off(const struct gf_fault *fault)
{
    char why[96];
    if (gf_exchange_relaxed(&large_off, true))
        return;
    gf_fault_text(fault, why, sizeof(why));
    gf_transfer_notify(gf_transfer_off, GF_LOG_WARN,
                       "%s; large pinned allocations are left to the driver from now on", why);
}

/* Allocations. */

void gf_pinned_trim_if_short(const struct gf_context *context)
{
    const bool is_short =
        gf_load_relaxed(&kept_most) == 0 && gf_now_ns() < gf_load_relaxed(&kept_until);
    if (is_short && gf_pinned_cache_can(gf_setup.cuda) &&
        gf_pinned_cache_trim(gf_setup.cuda, gf_context_id(context)))
        COUNT(trims, 1);
}

/*
 * Whether all devices access registered memory at its host address. *ret_count is the number of
 * devices.
 */
static bool has_same_address(int *ret_count)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    int same = cuda->cuDeviceGetCount(ret_count) == CUDA_SUCCESS && *ret_count > 0;
    for (CUdevice device = 0; same && device < *ret_count; device++)
        if (cuda->cuDeviceGetAttribute(&same,
                                       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                                       device) != CUDA_SUCCESS)
            same = false;
    return same;
}

/*
 * Whether registered memory can replace memory of cuMemHostAlloc in all contexts. Memory of
 * cuMemHostAlloc is pinned for all contexts on all devices and has one address, whatever its flags.
 * Registered memory needs the flag PORTABLE for that, even for contexts that are created later;
 * this function adds it to *flags. Two contexts of one device see no difference
 * (tests/conformance/README.md). Two devices were not measured, so allocations of a process that
 * uses a second device are left to the driver.
 */
static bool can_replace_driver(const struct gf_context *context, unsigned *flags)
{
    bool has_others = false;
    int count = 0;
    if (!has_same_address(&count))
        return false;
    if (*flags & CU_MEMHOSTALLOC_PORTABLE)
        return true;
    *flags |= CU_MEMHOSTALLOC_PORTABLE;
    GF_EACH_CONTEXT(other)
        has_others |= other->device != context->device;
    return !has_others;
}

/* Kept mappings are unmapped if the allocation does not fit beside them. */
static bool fits(size_t bytes, const struct gf_range_policy *policy)
{
    if (gf_touching_fits(bytes, policy))
        return true;
    if (!gf_kept_mapping_bytes())
        return false;
    gf_kept_limit_trim();
    return gf_touching_fits(bytes, policy);
}

/*
 * Called before the driver pins memory. If the memory does not fit beside the kept mappings, they
 * are unmapped.
 */
static void ensure_headroom(size_t bytes)
{
    if (gf_kept_mapping_bytes())
        (void)fits(bytes, NULL);
}

static bool alloc_large(struct gf_context *context, void **pp, size_t bytes, unsigned flags,
                        CUresult *ret_result)
{
    struct gf_range_policy policy;
    struct gf_pinned_buffer_request request = {.cuda = gf_setup.cuda,
                                               .pool = context->pool,
                                               .context = gf_context_id(context),
                                               .flags = flags,
                                               .policy = &policy};
    const uint64_t since = gf_now_ns();
    struct gf_pinned_mapping kept;
    struct gf_fault fault;
    unsigned as = flags;

    if (gf_pool_threads(context->pool) < GF_TUNE_PIN_THREADS && !gf_pinned_mapping_is_huge())
        return decline_alloc(gf_pinned_slow, bytes);
    if (!can_replace_driver(context, &as))
        return decline_alloc(gf_pinned_devices, bytes);
    gf_range_policy_choose(context->node, &policy);
    if (gf_kept_mapping_bytes())
        gf_kept_limit_read(context->node);
    if (gf_kept_mapping_take(context->pool, bytes, &policy, &kept)) {
        request.kept = &kept;
    } else if (!gf_huge_pool_is_on() && !fits(bytes, &policy)) {
        gf_debug(
            "a pinned allocation of %zu bytes is left to the driver: too little memory is free",
            bytes);
        return decline_alloc(gf_pinned_memory, bytes);
    }
    gf_prepare_helpers(context->pool, gf_when_now);
    *ret_result = CUDA_SUCCESS;
    if (gf_pinned_buffer_alloc(&request, pp, bytes, as, ret_result, &fault)) {
        COUNT(large_calls, 1);
        COUNT(large_bytes, bytes);
        COUNT(large_ns, gf_now_ns() - since);
        return true;
    }
    if (!fault.call)
        return decline_alloc(*ret_result ? gf_pinned_context : gf_pinned_memory, bytes);
    turn_large_off(&fault);
    return decline_alloc(gf_pinned_failed, bytes);
}

static bool alloc_small(struct gf_context *context, void **pp, size_t bytes, unsigned flags,
                        CUresult *ret_result)
{
    if (!gf_pinned_cache_can(gf_setup.cuda))
        return decline_alloc(gf_pinned_failed, bytes);
    const unsigned kept_most_now = gf_kept_limit_read(context->node);
    struct gf_range_policy before;
    const bool prefers = gf_context_nodes_differ() && gf_call_policy_begin(context->node, &before);
    *ret_result = gf_pinned_cache_alloc(gf_setup.cuda, gf_context_id(context), kept_most_now, pp,
                                        bytes, flags);
    if (prefers)
        gf_call_policy_end(&before);
    COUNT(small_calls, 1);
    COUNT(small_bytes, bytes);
    return true;
}

/*
 * The smallest allocation that the library maps. For smaller buffers the driver's first touch is as
 * fast.
 */
static size_t large_least(void)
{
    return gf_pinned_mapping_is_huge() ? GF_TUNE_PIN_LARGE_HUGE : GF_TUNE_PIN_LARGE;
}

static bool can_large(void)
{
    return gf_setup.cuda->cuDeviceGetCount && gf_setup.cuda->cuMemHostRegister_v2 &&
           gf_setup.cuda->cuMemHostUnregister && !gf_load_relaxed(&large_off);
}

/*
 * Serves the program's allocation from the library's pinned memory instead of the driver's. False:
 * the driver allocates, and the reason is counted.
 */
static bool alloc_own(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    const bool caches = gf_setup.options->pin_cache != 0;
    const bool small = bytes <= GF_PINNED_CACHE_MOST && caches;
    const bool large =
        bytes <= LARGE_MOST && (bytes >= large_least() || (caches && gf_recycled(bytes)));
    if (!pp || !bytes || (flags & ~SERVED_FLAGS) || (!small && !large))
        return decline_alloc(gf_pinned_odd, bytes);
    if (large && !can_large())
        return decline_alloc(gf_pinned_failed, bytes);
    struct gf_context *context = gf_context_enter();
    if (!context)
        return decline_alloc(gf_pinned_context, bytes);
    bool done = false;
    if (context->shares_pages) /* on Grace and Tegra the driver chooses the memory */
        decline_alloc(gf_pinned_context, bytes);
    else
        done = (large ? alloc_large : alloc_small)(context, pp, bytes, flags, ret_result);
    gf_context_leave(context);
    return done;
}

/*
 * Reads the id of the current context and leaves the context at once. A call that waits for the
 * context's work must not delay the end of the context.
 */
static bool read_current_id(uint64_t *ret, int *ret_node)
{
    struct gf_context *context = gf_context_enter();
    if (!context)
        return false;
    *ret = gf_context_id(context);
    *ret_node = context->node;
    gf_context_leave(context);
    return true;
}

/* Any block that may share a mapping is counted there. */
static CUresult call_driver(void **pp, size_t bytes, unsigned flags)
{
    uint64_t context = GF_PINNED_CACHE_NO_CONTEXT;
    int node;

    if (bytes > GF_PINNED_CACHE_MOST || !gf_pinned_cache_can(gf_setup.cuda))
        return gf_setup.cuda->cuMemHostAlloc(pp, bytes, flags);
    read_current_id(&context, &node);
    return gf_pinned_cache_alloc(gf_setup.cuda, context, 0, pp, bytes, flags);
}

/*
 * For a buffer that the library does not serve: makes the program's call while the thread prefers
 * the node of the current device, and remembers a block of a size that may be kept later. False:
 * the hook makes the call, if the library keeps nothing and all devices share a node, because
 * threads are bound to that node.
 */
static bool alloc_by_driver(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    const bool observes = gf_setup.options->pin_cache != 0 && bytes <= GF_TUNE_PIN_KEPT_MOST;
    uint64_t context;
    int node;
    struct gf_range_policy before;

    ensure_headroom(bytes);
    if (!gf_setup.cuda->cuMemHostAlloc)
        return false;
    const bool prefers = gf_context_nodes_differ() && read_current_id(&context, &node) &&
                         gf_call_policy_begin(node, &before);
    if (!prefers && !observes)
        return false;
    *ret_result =
        observes ? call_driver(pp, bytes, flags) : gf_setup.cuda->cuMemHostAlloc(pp, bytes, flags);
    if (prefers)
        gf_call_policy_end(&before);
    if (observes && *ret_result == CUDA_SUCCESS)
        gf_recycled_allocated(*pp, bytes);
    return true;
}

bool gf_pinned_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    if (!is_on())
        return false;
    return alloc_own(pp, bytes, flags, ret_result) || alloc_by_driver(pp, bytes, flags, ret_result);
}

/* Frees. */

bool gf_pinned_free(void *p, CUresult *ret_result)
{
    struct gf_fault fault;
    uint64_t context = 0, kept;
    bool reusable;
    int node = -1;

    const unsigned most = read_current_id(&context, &node) ? gf_kept_limit_read(node) : 0;
    if (gf_pinned_buffer_free(gf_setup.cuda, p, most ? gf_kept_limit_room : NULL, ret_result,
                              &fault)) {
        if (fault.call)
            turn_large_off(&fault);
        return true;
    }
    gf_recycled_freed(p);
    if (!gf_pinned_cache_can(gf_setup.cuda))
        return false;
    if (!gf_pinned_cache_free(gf_setup.cuda, p, ret_result, &kept, &reusable))
        return false;
    if (kept && (!reusable || (most == 0 && kept == context)) &&
        gf_pinned_cache_trim(gf_setup.cuda, kept))
        COUNT(trims, 1);
    if (kept)
        gf_kept_limit_apply(0);
    return true;
}

bool gf_pinned_unregister(void *p, CUresult *ret_result)
{
    return gf_pinned_buffer_unregister(gf_setup.cuda, p, ret_result) ||
           gf_pinned_cache_unregister(gf_setup.cuda, p, ret_result);
}

void gf_pinned_flags(const void *p, unsigned *flags)
{
    if (!gf_pinned_buffer_flags(p, flags) && gf_pinned_cache_can(gf_setup.cuda))
        gf_pinned_cache_flags(gf_setup.cuda, p, flags);
}

void gf_pinned_end(struct gf_context *context)
{
    gf_pinned_buffer_forget(gf_context_id(context));
    gf_pinned_cache_forget(gf_context_id(context));
    gf_kept_limit_trim();
}

/* Registrations. */

/* Whether the range is one mapping of huge pages that the administrator reserved. */
static bool is_reserved(const void *p, size_t bytes)
{
    struct gf_vma vma;
    return gf_vma_query((uintptr_t)p, &vma, NULL, 0) == 0 && vma.page > gf_page_size() &&
           vma.end - (uintptr_t)p >= bytes;
}

/* Populates absent pages of a large range, by helper threads on the device's node. */
static void prefault_range(void *p, size_t bytes, unsigned flags)
{
    if (bytes < GF_TUNE_PREFAULT_LEAST || (flags & ~SERVED_FLAGS) || !is_on() ||
        !gf_prefault_pays(p, bytes) || gf_range_policy_is_users())
        return;
    struct gf_context *context = gf_context_enter();
    if (!context)
        return;
    const bool reserved = is_reserved(p, bytes);
    if (gf_pool_threads(context->pool) > 1 && (reserved || gf_touching_fits(bytes, NULL))) {
        gf_prepare_helpers(context->pool, gf_when_now);
        if (gf_pinned_mapping_populate(context->pool, p, bytes, reserved) == 0) {
            COUNT(placed_calls, 1);
            COUNT(placed_bytes, bytes);
        }
    }
    gf_context_leave(context);
}

bool gf_pinned_register(void *p, size_t bytes, unsigned flags, CUresult *ret_result)
{
    if (!gf_pinned_buffer_meets(p, bytes)) {
        ensure_headroom(bytes);
        prefault_range(p, bytes, flags);
        return false;
    }
    /*
     * The driver refuses to register its own memory, with a different error than for registered
     * memory.
     */
    *ret_result = gf_setup.cuda->cuMemHostRegister_v2(p, bytes, flags);
    if (*ret_result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        *ret_result = CUDA_ERROR_INVALID_VALUE;
    return true;
}
