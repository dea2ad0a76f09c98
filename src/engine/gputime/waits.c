/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/host_causes.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>

#define ARGUMENTS 5u /* how many arguments of a system call are looked at */

static bool is_among(long number, const long *numbers, size_t count)
{
    while (count && numbers[count - 1] != number)
        count--;
    return count;
}

#define IS_AMONG(number, numbers) is_among(number, numbers, GF_ARRAY_LEN(numbers))

/* The system calls that decide by their number alone. */
static enum gf_wait_kind kind_of_number(long number)
{
    static const long sleeps[] = {SYS_nanosleep, SYS_clock_nanosleep};
    static const long accepts[] = {
#ifdef SYS_pause
        SYS_pause,
#endif
        SYS_accept, SYS_accept4, SYS_rt_sigtimedwait, SYS_rt_sigsuspend};
    static const long children[] = {SYS_wait4, SYS_waitid};
    static const long files[] = {
#ifdef SYS_open
        SYS_open,       SYS_stat,
#endif
        SYS_openat,     SYS_newfstatat,   SYS_statx,
        SYS_getdents64, SYS_io_getevents, SYS_io_uring_enter};
    static const long writes[] = {
#ifdef SYS_open
        SYS_unlink,   SYS_rename,    SYS_link,   SYS_mkdir,    SYS_rmdir,
#endif
        SYS_msync,    SYS_sync,      SYS_syncfs, SYS_truncate, SYS_unlinkat,
        SYS_renameat, SYS_renameat2, SYS_linkat, SYS_mkdirat};

    return IS_AMONG(number, sleeps)     ? gf_wait_sleep
           : number == SYS_flock        ? gf_wait_lock
           : IS_AMONG(number, accepts)  ? gf_wait_accept
           : IS_AMONG(number, children) ? gf_wait_child
           : IS_AMONG(number, files)    ? gf_wait_file
           : IS_AMONG(number, writes)   ? gf_wait_file_write
                                        : gf_wait_unknown;
}

/* Whether the first argument is a descriptor that the call reads. os.preadv of Python calls preadv2. */
static bool reads_first(long number)
{
    static const long calls[] = {SYS_read,     SYS_readv,           SYS_pread64,  SYS_preadv,
                                 SYS_preadv2,  SYS_copy_file_range, SYS_recvfrom, SYS_recvmsg,
                                 SYS_recvmmsg, SYS_connect};
    return IS_AMONG(number, calls);
}

static bool writes_first(long number)
{
    static const long calls[] = {SYS_write,    SYS_writev,    SYS_pwrite64,  SYS_pwritev,
                                 SYS_pwritev2, SYS_sendto,    SYS_sendmsg,   SYS_sendmmsg,
                                 SYS_fsync,    SYS_fdatasync, SYS_ftruncate, SYS_fallocate};
    return IS_AMONG(number, calls);
}

/*
 * Returns the kind if this is a call that waits for any of several descriptors. A call without
 * descriptors is a sleep; up to Python 3.10, time.sleep makes such a call. If it has no time limit
 * either, it waits for a signal.
 */
static enum gf_wait_kind kind_of_several(long number, const unsigned long argument[ARGUMENTS])
{
    switch (number) {
#ifdef SYS_poll
    case SYS_poll:
        return argument[1] ? gf_wait_poll : (int)argument[2] >= 0 ? gf_wait_sleep : gf_wait_accept;
#endif
    case SYS_ppoll:
        return argument[1] ? gf_wait_poll : argument[2] ? gf_wait_sleep : gf_wait_accept;
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
        return argument[0] ? gf_wait_poll : argument[4] ? gf_wait_sleep : gf_wait_accept;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
        return gf_wait_poll;
    default:
        return gf_wait_unknown;
    }
}

static void parse_call(long number, const unsigned long argument[ARGUMENTS], struct gf_wait *ret)
{
    ret->writes = writes_first(number);
    if (ret->writes || reads_first(number)) {
        ret->fd = (int)argument[0];
    } else if (number == SYS_futex) {
        ret->kind = gf_wait_futex;
        ret->futex = argument[0];
        ret->is_private = argument[1] & FUTEX_PRIVATE_FLAG;
    } else if (number == SYS_fcntl) {
        ret->kind =
            argument[1] == F_SETLKW || argument[1] == F_OFD_SETLKW ? gf_wait_lock : gf_wait_unknown;
    } else {
        ret->kind = kind_of_several(number, argument);
        if (ret->kind == gf_wait_unknown)
            ret->kind = kind_of_number(number);
    }
}

void gf_wait_by_syscall(const char *text, struct gf_wait *ret)
{
    unsigned long argument[ARGUMENTS];
    char *end;

    *ret = (struct gf_wait){.fd = -1};
    const long number = strtol(text, &end, 10);
    if (gf_begins(text, "running"))
        ret->kind = gf_wait_running;
    else if (end == text)
        ret->kind = gf_wait_unread;
    else if (number < 0)
        ret->kind = gf_wait_fault;
    if (end == text || number < 0)
        return;
    for (unsigned i = 0; i < ARGUMENTS; i++)
        argument[i] = strtoul(end, &end, 16);
    parse_call(number, argument, ret);
}

enum gf_wait_kind gf_wait_by_link(const char *link, bool writes)
{
    if (gf_begins(link, "socket:"))
        return gf_wait_socket;
    if (gf_begins(link, "pipe:"))
        return writes ? gf_wait_pipe_write : gf_wait_pipe_read;
    if (gf_begins(link, "anon_inode:"))
        return gf_wait_event;
    if (gf_begins(link, "/dev/pts/") || gf_begins(link, "/dev/tty") ||
        gf_begins(link, "/dev/console"))
        return writes ? gf_wait_terminal_write : gf_wait_terminal_read;
    if (*link == '/' && (!gf_begins(link, "/dev/") || gf_begins(link, "/dev/shm/")))
        return writes ? gf_wait_file_write : gf_wait_file;
    return gf_wait_unknown;
}

/*
 * glibc's sem_t on 64-bit machines: the value, the number of waiting threads, and whether other
 * processes use it. A thread waits only while the value is 0.
 */
enum gf_wait_kind gf_wait_by_futex(const struct gf_wait *wait, const uint32_t words[4])
{
    const bool is_semaphore = !words[0] && words[1] && words[1] < 0x10000 &&
                              words[2] == (wait->is_private ? 0 : FUTEX_PRIVATE_FLAG);
    return is_semaphore ? gf_wait_lock : gf_wait_futex;
}

#define FROZEN "<frozen " /* begins the file name of a module that is built into the interpreter */

/* Returns what follows the last `folder` in the path; NULL if the path does not contain it. */
static const char *after_last(const char *file, const char *folder)
{
    const char *ret = NULL;

    for (const char *at = file; (at = strstr(at, folder));)
        ret = at += strlen(folder);
    return ret;
}

const char *gf_wait_module(const char *file)
{
    if (gf_begins(file, FROZEN))
        return file + strlen(FROZEN);
    const char *packages = after_last(file, "/site-packages/");
    if (!packages)
        packages = after_last(file, "/dist-packages/");
    if (packages)
        return packages;
    const char *library = after_last(file, "/lib/python3.");
    if (!library)
        library = after_last(file, "/lib64/python3.");
    if (!library)
        return NULL;
    const char *slash = strchr(library, '/');
    return slash ? slash + 1 : NULL;
}

struct row {
    uint32_t kinds;
    const char *module, *function;
    enum gf_host_cause cause;
    bool within; /* frames outside of the program's line count, too */
};

#define KIND(name) (UINT32_C(1) << gf_wait_##name)
#define ANY UINT32_MAX
#define BLOCKED (ANY & ~KIND(running) & ~KIND(unread))

static const struct row rows[] = {
#define GF_WAIT(kinds, module, function, cause) {kinds, module, function, gf_host_##cause, false},
#define GF_WAIT_WITHIN(kinds, module, function, cause)                                             \
    {kinds, module, function, gf_host_##cause, true},
#include "engine/gputime/waits.def"
#undef GF_WAIT
#undef GF_WAIT_WITHIN
};

bool gf_wait_has_frame(const char *module, const char *function,
                       const struct gf_pystack_frame *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *found = gf_wait_module(frames[i].file);
        if (found && gf_begins(found, module) && strstr(frames[i].function, function))
            return true;
    }
    return false;
}

enum gf_host_cause gf_wait_cause(enum gf_wait_kind kind, const struct gf_python_place *place)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++)
        if ((rows[i].kinds >> kind & 1) &&
            (!*rows[i].module || gf_wait_has_frame(rows[i].module, rows[i].function, place->frames,
                                                   rows[i].within ? place->all : place->count)))
            return rows[i].cause;
    return gf_host_waiting;
}

bool gf_wait_prepares_work(const struct gf_python_place *place)
{
    return gf_wait_has_frame("torch/", "", place->frames, place->count) ||
           gf_wait_has_frame("torch/nn/modules/module.py", "", place->frames, place->all);
}

bool gf_wait_is_by_frames(enum gf_host_cause cause)
{
    bool ret = false;

    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++)
        if (rows[i].cause == cause) {
            if (rows[i].kinds != ANY || !*rows[i].module)
                return false;
            ret = true;
        }
    return ret;
}
