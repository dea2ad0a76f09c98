/* SPDX-License-Identifier: Apache-2.0 */
#include "os/cpu_claim.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <fcntl.h>

#define PATH "/sys/devices/system/cpu/possible"
#define ID_BITS 22   /* of a thread id: PID_MAX_LIMIT */
#define HASH_BITS 16 /* of a set of CPUs */
#define COUNT_MAX 64 /* limits the depth of the recursion */
/* The CPU time of a count; with 64 claims it takes about 10 ms. */
#define CPU_NS UINT64_C(100000000)
#define IDS (UINT64_C(1) << ID_BITS)
#define NUMBERS 32 /* a serving thread has few descriptors */

struct counting {
    struct gf_cpu_claim *claim;
    const struct gf_cpus *cpus;
    unsigned others;
};

static int fd = -1;       /* in the descriptor table of the serving thread */
static uint64_t until_ns; /* CPU time of this thread */
/*
 * No more counts are made. Each query searches all locks of the file, and another user may hold
 * 100 000. Meanwhile, the program's threads would wait for the serving thread.
 */
static bool is_slow;

/* FNV-1a on whole words, folded. Never 0, so that no claim has the offset 0. */
static uint64_t hash(const struct gf_cpus *cpus)
{
    uint64_t ret = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < GF_ARRAY_LEN(cpus->word); i++)
        ret = (ret ^ cpus->word[i]) * UINT64_C(0x100000001b3);
    ret ^= ret >> 32;
    ret ^= ret >> HASH_BITS;
    ret &= (UINT64_C(1) << HASH_BITS) - 1;
    return ret ? ret : 1;
}

static bool call_fcntl(int operation, short type, uint64_t start, uint64_t end, struct flock *ret)
{
    *ret = (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)start,
                          .l_len = (off_t)(end - start)};
    return syscall(SYS_fcntl, fd, operation, ret) == 0;
}

/* Whether the descriptor's file in /proc lists a lock on the byte: "lock: 1: OFDLCK ... 12345 12345". */
static bool lists_lock(unsigned tid, unsigned number, uint64_t at)
{
    char text[1024], wanted[64];
    const int length = gf_procfs_read(text, sizeof(text) - 1, "", "proc/%u/fdinfo/%u", tid, number);

    if (length <= 0)
        return false;
    memcpy(text + length, "\n", 2); /* the end of the last line, which the text lacks */
    gf_fmt(wanted, sizeof(wanted), " %lu %lu\n", at, at);
    return strstr(text, "OFDLCK") && strstr(text, wanted);
}

/*
 * Whether a process of the same user holds the lock on the byte. Any user may lock any byte of the
 * file, so the thread whose id the offset contains must be of this user, and have the lock itself.
 */
static bool is_claim(uint64_t at)
{
    const unsigned tid = (unsigned)(at % IDS);

    if (gf_procfs_user((pid_t)tid) != getuid())
        return false;
    for (unsigned number = 0; number < NUMBERS; number++)
        if (lists_lock(tid, number, at))
            return true;
    return false;
}

/*
 * Counts the other processes' claims between two offsets. The kernel answers each query with any one
 * of the locks, so the function then looks on both sides of it. Visits at most *left locks.
 */
static unsigned count_claims(uint64_t start, uint64_t end, unsigned *left)
{
    struct flock found;

    if (start >= end || !*left || gf_thread_cpu_ns() >= until_ns ||
        !call_fcntl(F_OFD_GETLK, F_WRLCK, start, end, &found) || found.l_type == F_UNLCK)
        return 0;
    const uint64_t at = (uint64_t)found.l_start;
    --*left;
    unsigned count = found.l_len == 1 && is_claim(at);
    if (at > start)
        count += count_claims(start, at, left);
    if (found.l_len > 0) /* 0: the lock reaches to the end of the file */
        count += count_claims(gf_max(at, start) + (uint64_t)found.l_len, end, left);
    return count;
}

static bool set_lock(short type, uint64_t at)
{
    struct flock unused;
    return call_fcntl(F_OFD_SETLK, type, at, at + 1, &unused);
}

/*
 * A read lock is shared, so a process of another PID namespace may hold one on the same byte. Neither
 * sees the other's thread, so neither counts the other.
 */
static bool move_claim(struct gf_cpu_claim *claim, uint64_t start)
{
    const uint64_t at = start + (uint64_t)syscall(SYS_gettid) % IDS;

    if (claim->at == at)
        return true;
    if (claim->at)
        set_lock(F_UNLCK, claim->at);
    claim->at = set_lock(F_RDLCK, at) ? at : 0;
    return claim->at;
}

static void count_others(void *closure)
{
    struct counting *counting = closure;
    const uint64_t start = hash(counting->cpus) << ID_BITS;
    unsigned left = COUNT_MAX;

    until_ns = gf_thread_cpu_ns() + CPU_NS;
    if (is_slow)
        return;
    if (fd < 0)
        fd = (int)syscall(SYS_openat, AT_FDCWD, PATH, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && move_claim(counting->claim, start))
        counting->others = count_claims(start, start + IDS, &left);
    is_slow = gf_thread_cpu_ns() >= until_ns;
}

unsigned gf_cpu_claim_count(struct gf_cpu_claim *claim, const struct gf_cpus *cpus)
{
    struct counting counting = {.claim = claim, .cpus = cpus};

    const bool done = gf_own_table_run_on_server(count_others, &counting);
    return done && claim->at ? 1 + counting.others : 0;
}

int gf_idle_states_limit(int longest_us)
{
    const int32_t longest = longest_us;

    if (gf_permit_sealed())
        return -EPERM;
    const long device = syscall(SYS_openat, AT_FDCWD, GF_IDLE_STATES_DEVICE, O_WRONLY | O_CLOEXEC);
    if (device < 0 || syscall(SYS_write, device, &longest, sizeof(longest)) != sizeof(longest))
        return -errno;
    return 0;
}
