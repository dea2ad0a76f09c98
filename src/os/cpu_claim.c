/* SPDX-License-Identifier: Apache-2.0 */
#include "os/cpu_claim.h"

#include "os/own_table.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH "/sys/devices/system/cpu/possible"
#define ID_BITS 22   /* of a process id: PID_MAX_LIMIT */
#define HASH_BITS 16 /* of a set of CPUs */
#define COUNT_MAX 64 /* limits the time, and the depth of the recursion */
#define IDS (UINT64_C(1) << ID_BITS)

struct counting {
    struct gf_cpu_claim *claim;
    const struct gf_cpus *cpus;
    unsigned others;
};

static int fd = -1; /* in the descriptor table of the serving thread */

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

/*
 * Counts the other processes' locks between two offsets. The kernel answers each query with any one
 * of the locks, so the function then looks on both sides of it.
 */
static unsigned count_locks(uint64_t start, uint64_t end, unsigned most)
{
    struct flock found;

    if (start >= end || most == 0 || !call_fcntl(F_OFD_GETLK, F_WRLCK, start, end, &found) ||
        found.l_type == F_UNLCK)
        return 0;
    const uint64_t at = gf_max((uint64_t)found.l_start, start);
    unsigned count = 1 + count_locks(start, at, most - 1);
    if (found.l_len > 0) /* 0: the lock reaches to the end of the file, so it is no claim */
        count +=
            count_locks((uint64_t)(found.l_start + found.l_len), end, most - gf_min(count, most));
    return count;
}

static bool set_lock(short type, uint64_t at)
{
    struct flock unused;
    return call_fcntl(F_OFD_SETLK, type, at, at + 1, &unused);
}

/* Returns false if the byte is not locked by another process. Returns true if that is unknown. */
static bool is_taken(uint64_t at)
{
    struct flock found;
    return !call_fcntl(F_OFD_GETLK, F_WRLCK, at, at + 1, &found) || found.l_type != F_UNLCK;
}

/* If another process locks the byte at the same time, both may release it, and go on. */
static bool lock_free_byte(uint64_t at)
{
    if (is_taken(at) || !set_lock(F_RDLCK, at))
        return false;
    if (!is_taken(at))
        return true;
    set_lock(F_UNLCK, at);
    return false;
}

/*
 * Locks the first free byte from the process id on. Processes of different PID namespaces may have
 * the same id.
 */
static bool move_claim(struct gf_cpu_claim *claim, uint64_t start)
{
    const uint64_t pid = (uint64_t)syscall(SYS_getpid);

    if (claim->at && claim->at - claim->at % IDS == start)
        return true;
    if (claim->at)
        set_lock(F_UNLCK, claim->at);
    claim->at = 0;
    for (unsigned i = 0; i < COUNT_MAX && !claim->at; i++)
        if (lock_free_byte(start + (pid + i) % IDS))
            claim->at = start + (pid + i) % IDS;
    return claim->at;
}

static void count_others(void *closure)
{
    struct counting *counting = closure;
    const uint64_t start = hash(counting->cpus) << ID_BITS;

    if (fd < 0)
        fd = (int)syscall(SYS_openat, AT_FDCWD, PATH, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && move_claim(counting->claim, start))
        counting->others = count_locks(start, start + IDS, COUNT_MAX);
}

unsigned gf_cpu_claim_count(struct gf_cpu_claim *claim, const struct gf_cpus *cpus)
{
    struct counting counting = {.claim = claim, .cpus = cpus};

    const bool done = gf_own_table_run_on_server(count_others, &counting);
    return done && claim->at ? 1 + counting.others : 0;
}
