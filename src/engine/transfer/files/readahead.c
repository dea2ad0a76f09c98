/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/files/readahead.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "engine/transfer/files/mapped_file.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"
#include "os/cgroup.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <sched.h>
#include <sys/resource.h>

/*
 * Whether files of this file system are on a disk of this machine. An overlay is assumed to be on a
 * disk, because its layers are not known in a container.
 */
static bool is_on_disk(const char *type)
{
    static const char *const types[] = {"ext4", "xfs", "f2fs", "btrfs", "overlay"};

    for (size_t i = 0; i < GF_ARRAY_LEN(types); i++) {
        const size_t length = strlen(types[i]);
        if (strncmp(type, types[i], length) == 0 && type[length] == ' ')
            return true;
    }
    return false;
}

struct look_up {
    const char *root, *device; /* "8:1" */
    bool ret;
};

/*
 * Whether a line of mountinfo describes the device, and its file system is on a disk. A line is,
 * for example, "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext4 /dev/root rw".
 */
static bool is_disk_line(const char *line, const char *device)
{
    const size_t length = strlen(device);
    const char *at = strchr(line, ' ');

    at = at ? strchr(at + 1, ' ') : NULL;
    if (!at || strncmp(at + 1, device, length) != 0 || at[1 + length] != ' ')
        return false;
    const char *const type = strstr(at, " - ");
    return type && is_on_disk(type + 3);
}

static void look_up(void *closure)
{
    struct look_up *const look_up = closure;
    char text[4096], file[GF_PROCFS_PATH_MAX];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    bool found = false;
    const char *line;

    gf_fmt(file, sizeof(file), "%s/proc/self/mountinfo", look_up->root);
    if (!gf_procfs_lines_open(&lines, file))
        return;
    while (!found && (line = gf_procfs_lines_next(&lines)))
        found = !lines.continued && is_disk_line(line, look_up->device);
    gf_procfs_lines_close(&lines);
    look_up->ret = found && !gf_cgroup_limits_reading(look_up->root);
}

bool gf_file_system_allows_readahead(const char *root, unsigned major, unsigned minor)
{
    char device[32];
    struct look_up closure = {.root = root, .device = device};

    gf_fmt(device, sizeof(device), "%u:%u", major, minor);
    gf_own_table_run(look_up, &closure);
    return closure.ret;
}

/* As in <linux/ioprio.h>, which libc's headers lack. */
#define WHO_PROCESS 1
#define CLASS_SHIFT 13
#define CLASS_REAL_TIME 1
#define CLASS_BEST_EFFORT 2
#define CLASS_IDLE 3
#define PRIORITY(class, level) ((class) << CLASS_SHIFT | (level))

/* Calculates the priority that the kernel derives in block/ioprio.c. */
static int derived_priority(void)
{
    if (syscall(SYS_sched_getscheduler, 0) == SCHED_IDLE)
        return PRIORITY(CLASS_IDLE, 7);
    return PRIORITY(CLASS_BEST_EFFORT, (getpriority(PRIO_PROCESS, 0) + 20) / 5);
}

int gf_io_priority_get(void)
{
    gf_keep_errno();
    const long priority_own = gf_permit(gf_permit_io_priority)
                                  ? syscall(SYS_ioprio_get, WHO_PROCESS, 0)
                                  : GF_IO_PRIORITY_UNKNOWN;
    return priority_own < 0                   ? GF_IO_PRIORITY_UNKNOWN
           : priority_own >> CLASS_SHIFT == 0 ? derived_priority()
                                              : (int)priority_own;
}

bool gf_io_priority_is_for_all(int priority)
{
    return priority != GF_IO_PRIORITY_UNKNOWN && priority >> CLASS_SHIFT != CLASS_REAL_TIME;
}

bool gf_io_priority_is_ordinary(int priority)
{
    return priority == PRIORITY(CLASS_BEST_EFFORT, 4);
}

/* The calling helper's I/O priority now, and its own one. */
static __thread int priority_now = GF_IO_PRIORITY_UNKNOWN, priority_own = GF_IO_PRIORITY_UNKNOWN;

static void change(int priority)
{
    gf_keep_errno();

    if (priority != priority_now && gf_permit(gf_permit_io_priority) &&
        syscall(SYS_ioprio_set, WHO_PROCESS, 0, priority) == 0)
        priority_now = priority;
}

bool gf_io_priority_set(int priority)
{
    if (priority_now == GF_IO_PRIORITY_UNKNOWN)
        priority_now = priority_own = gf_io_priority_get();
    if (priority_own == GF_IO_PRIORITY_UNKNOWN)
        return false;
    change(priority);
    return priority == priority_now;
}

void gf_io_priority_restore(void)
{
    change(priority_own);
}

#define SLOTS 8
#define SAMPLES 4 /* pages of a piece that are checked by mincore */

static struct slot {
    struct gf_pieces job; /* the first member: a piece casts its job to the slot */
    _Atomic bool taken;
    struct gf_pool *pool;
    struct gf_mapped_file_id id;
    struct gf_range copy, ahead; /* ranges in the file: of the copy, and to be read ahead */
    uintptr_t start, end;        /* the addresses of `ahead`, rounded to whole pages */
    /* the address that the file's offset 0 would have in this mapping */
    uintptr_t origin;
    int io_priority;
    _Atomic bool is_over;
    _Atomic uintptr_t cached_to; /* pieces before this address are assumed to be cached */
    _Atomic uintptr_t reached;   /* the end of the last piece that was read ahead */
} slots[SLOTS];

/* Pieces. */

static void raise_to(_Atomic uintptr_t *word, uintptr_t value)
{
    uintptr_t now = gf_load_relaxed(word);
    while (now < value && !gf_cas_relaxed(word, &now, value))
        continue;
}

static bool is_present(uintptr_t page)
{
    unsigned char present = 0;
    return mincore((void *)page, 1, &present) == 0 && (present & 1);
}

/*
 * Whether mincore reports all sampled pages of the piece as cached. For a file that the process may
 * not write, mincore reports every page as cached.
 */
static bool seems_cached(uintptr_t at, uintptr_t end)
{
    const uintptr_t step = gf_max((end - at) / SAMPLES, (uintptr_t)gf_page_size());

    for (uintptr_t page = at; gf_permit(gf_permit_mincore) && page < end; page += step)
        if (!is_present(page & ~(uintptr_t)(gf_page_size() - 1)))
            return false;
    return true;
}

/*
 * Makes one call of madvise, in which the kernel reads at most its own read-ahead size. Sets
 * *ret_next to the end of the step.
 */
static bool advise(uintptr_t at, uintptr_t end, uintptr_t *ret_next)
{
    *ret_next = gf_min(at + GF_TUNE_READAHEAD_STEP, end);
    return madvise((void *)at, *ret_next - at, MADV_WILLNEED) == 0;
}

/*
 * Skips the next pieces, because they are probably cached, too. The further the piece is from the
 * range's start, the more pieces are skipped.
 */
static void skip_cached(struct slot *slot, uintptr_t piece)
{
    const uintptr_t done = piece - slot->start;
    raise_to(&slot->cached_to,
             piece + gf_max(2 * GF_TUNE_READAHEAD_PIECE, gf_min(done, GF_TUNE_READAHEAD_SKIP)));
}

static bool request_piece(struct slot *slot, uint64_t number)
{
    const uintptr_t piece = slot->start + number * GF_TUNE_READAHEAD_PIECE;
    const uintptr_t end = gf_min(piece + GF_TUNE_READAHEAD_PIECE, slot->end);
    uintptr_t at = piece;

    if (piece < gf_load_relaxed(&slot->cached_to))
        return true;
    if (seems_cached(piece, end)) {
        const uint64_t begun = gf_now_ns();
        if (!advise(piece, end, &at))
            return false;
        if (gf_now_ns() - begun < GF_TUNE_READAHEAD_CACHED_NS) {
            skip_cached(slot, piece);
            return true;
        }
    }
    while (at < end && !gf_load_relaxed(&slot->is_over))
        if (!advise(at, end, &at))
            return false;
    gf_copy_stats_add(readahead.advised, at - piece);
    raise_to(&slot->reached, at);
    return true;
}

static bool read_piece(struct gf_pieces *job, uint64_t number)
{
    struct slot *slot = (struct slot *)job;

    if (gf_load_relaxed(&slot->is_over) || !gf_io_priority_set(slot->io_priority))
        return false;
    const bool ret = request_piece(slot, number);
    gf_io_priority_restore();
    return ret;
}

/* Functions that the copying thread calls. */

static struct slot *take_readahead_slot(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (!gf_load_relaxed(&slots[i].taken) && !gf_exchange_acquire(&slots[i].taken, true))
            return &slots[i];
    return NULL;
}

static void give_slot(struct slot *slot)
{
    gf_store_release(&slot->taken, false);
}

/*
 * A mapping in which nothing was read ahead for a recent copy of the calling thread. For the
 * thread's next `left` copies from this mapping the kernel is not queried, because a query takes
 * some microseconds.
 */
static __thread struct {
    uintptr_t start, end;
    unsigned left;
} other;

static void note_other(const struct gf_vma *vma, unsigned copies)
{
    other.start = vma->start;
    other.end = vma->end;
    other.left = copies;
}

/*
 * Describes the mapping that contains the copy's source. False: the source is not in one mapping of
 * a readable file.
 */
static bool find_mapping(uintptr_t at, size_t bytes, struct gf_vma *ret)
{
    if (other.left && at >= other.start && at < other.end) {
        other.left--;
        return false;
    }
    if (gf_vma_query(at, ret, NULL, 0) != 0)
        return false;
    if (ret->has_file && ret->readable && ret->page == gf_page_size())
        return ret->end - at >= bytes;
    note_other(ret, GF_TUNE_READAHEAD_OTHERS);
    return false;
}

static bool allows_readahead(unsigned major, unsigned minor)
{
    return gf_file_system_allows_readahead("", major, minor);
}

static void end_file(const struct slot *slot)
{
    const uintptr_t reached = gf_load_relaxed(&slot->reached);
    gf_mapped_file_end(&slot->id, &slot->copy, &slot->ahead, reached ? reached - slot->origin : 0,
                       !reached && gf_load_relaxed(&slot->cached_to));
}

/* Sets the slot's ranges for a copy. False: nothing is to be read ahead. */
static bool set_range(struct slot *slot, uintptr_t at, size_t bytes, const struct gf_vma *vma)
{
    const uintptr_t mask = gf_page_size() - 1;

    slot->id = (struct gf_mapped_file_id){vma->inode, vma->major, vma->minor};
    slot->origin = vma->start - (uintptr_t)vma->offset;
    slot->copy = (struct gf_range){at - slot->origin, at - slot->origin + bytes};
    const enum gf_mapped_file_answer answer =
        gf_mapped_file_begin(&slot->id, &slot->copy, &slot->ahead);
    /* The look-up opens files, so the library's own thread does it if there is one. */
    if (answer == gf_mapped_file_unknown && !gf_prepare_request(gf_when_now))
        gf_readahead_prepare();
    if (answer == gf_mapped_file_no && bytes < GF_TUNE_READAHEAD_QUIET)
        note_other(vma, GF_TUNE_READAHEAD_CACHED);
    if (answer != gf_mapped_file_yes)
        return false;
    slot->start = (slot->origin + (uintptr_t)slot->ahead.start) & ~mask;
    slot->end = slot->ahead.end - slot->copy.start > vma->end - at
                    ? vma->end
                    : (slot->origin + (uintptr_t)slot->ahead.end + mask) & ~mask;
    if (slot->start < slot->end)
        return true;
    end_file(slot);
    return false;
}

static uint64_t pieces_to(const struct slot *slot, uintptr_t end)
{
    end = gf_min(end, slot->end);
    return end > slot->start
               ? (end - slot->start + GF_TUNE_READAHEAD_PIECE - 1) / GF_TUNE_READAHEAD_PIECE
               : 0;
}

static uint64_t pieces_after(const struct slot *slot, size_t done)
{
    return pieces_to(slot, slot->origin + slot->copy.start + done + GF_TUNE_READAHEAD_LEAD);
}

unsigned gf_readahead_begin(const void *at, size_t bytes)
{
    struct gf_vma vma;
    struct slot *slot;

    if (gf_setup.options->readahead == gf_readahead_off)
        return 0;
    struct gf_pool *pool = gf_pool_with_helpers(1);
    if (!pool || !find_mapping((uintptr_t)at, bytes, &vma))
        return 0;
    const int io_priority = gf_io_priority_get();
    if (io_priority == GF_IO_PRIORITY_UNKNOWN || !(slot = take_readahead_slot()))
        return 0;
    gf_store_relaxed(&slot->is_over, false);
    gf_store_relaxed(&slot->cached_to, 0);
    gf_store_relaxed(&slot->reached, 0);
    if (!set_range(slot, (uintptr_t)at, bytes, &vma)) {
        give_slot(slot);
        return 0;
    }
    slot->job = (struct gf_pieces){.work = read_piece,
                                   .max_helpers = GF_TUNE_READAHEAD_HELPERS,
                                   .total = pieces_to(slot, slot->end)};
    slot->pool = pool;
    slot->io_priority = io_priority;
    gf_pool_open(pool, &slot->job, pieces_after(slot, 0));
    return (unsigned)(slot - slots) + 1;
}

void gf_readahead_advance(unsigned readahead, size_t bytes)
{
    if (!readahead)
        return;
    struct slot *slot = &slots[readahead - 1];
    const uint64_t pieces = pieces_after(slot, bytes);
    if (pieces >= gf_load_relaxed(&slot->job.limit) + GF_TUNE_READAHEAD_RAISE)
        gf_pool_raise(slot->pool, &slot->job, pieces);
}

void gf_readahead_end(unsigned readahead)
{
    if (!readahead)
        return;
    struct slot *slot = &slots[readahead - 1];
    gf_store_relaxed(&slot->is_over, true);
    gf_pool_close(slot->pool, &slot->job);
    end_file(slot);
    give_slot(slot);
}

void gf_readahead_prepare(void)
{
    gf_mapped_files_look_up(allows_readahead);
}
