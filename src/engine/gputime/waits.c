/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/host_causes.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>

#define ARGUMENTS 5u /* how many arguments of a system call are looked at */

/* The system calls that decide by their number alone. */
static enum gf_wait_kind kind_of_number(long number)
{
    switch (number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
        return gf_wait_sleep;
    case SYS_flock:
        return gf_wait_lock;
    case SYS_accept:
    case SYS_accept4:
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
#ifdef SYS_pause
    case SYS_pause:
#endif
        return gf_wait_accept;
    case SYS_wait4:
    case SYS_waitid:
        return gf_wait_child;
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_getdents64:
    case SYS_io_getevents:
    case SYS_io_uring_enter:
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
#endif
        return gf_wait_file;
    case SYS_msync:
    case SYS_sync:
    case SYS_syncfs:
    case SYS_truncate:
    case SYS_unlinkat:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_linkat:
    case SYS_mkdirat:
#ifdef SYS_open
    case SYS_unlink:
    case SYS_rename:
    case SYS_link:
    case SYS_mkdir:
    case SYS_rmdir:
#endif
        return gf_wait_file_write;
    default:
        return gf_wait_unknown;
    }
}

/* Returns 1 if the first argument is a descriptor that the call reads; 2 if it is written; else 0. */
static unsigned uses_first(long number)
{
    switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2: /* os.preadv of Python */
    case SYS_copy_file_range:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_connect:
        return 1;
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate:
    case SYS_fallocate:
        return 2;
    default:
        return 0;
    }
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
    const unsigned use = uses_first(number);

    if (use) {
        ret->fd = (int)argument[0];
        ret->writes = use == 2;
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
