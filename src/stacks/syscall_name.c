/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/syscall_name.h"

#include "base/base.h"

#include <sys/syscall.h>

#define CALL(name)                                                                                 \
    {                                                                                              \
        SYS_##name, #name                                                                          \
    }

static const struct {
    long number;
    const char *name;
} calls[] = {
    CALL(read),
    CALL(write),
    CALL(pread64),
    CALL(pwrite64),
    CALL(readv),
    CALL(writev),
    CALL(futex),
    CALL(ppoll),
    CALL(pselect6),
    CALL(epoll_pwait),
    CALL(nanosleep),
    CALL(clock_nanosleep),
    CALL(wait4),
    CALL(waitid),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(sendto),
    CALL(sendmsg),
    CALL(accept),
    CALL(accept4),
    CALL(connect),
    CALL(ioctl),
    CALL(rt_sigtimedwait),
    CALL(rt_sigsuspend),
    CALL(openat),
    CALL(close),
    CALL(fsync),
    CALL(fdatasync),
    CALL(flock),
    CALL(munmap),
    CALL(mmap),
    CALL(madvise),
    CALL(mprotect),
    CALL(sched_yield),
    CALL(io_getevents),
    CALL(getdents64),
    CALL(newfstatat),
    CALL(statx),
    CALL(restart_syscall),
#ifdef SYS_poll
    CALL(poll),
    CALL(select),
    CALL(epoll_wait),
    CALL(pause),
    CALL(open),
    CALL(stat),
#endif
};

const char *gf_syscall_name(long number)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(calls); i++)
        if (calls[i].number == number)
            return calls[i].name;
    return NULL;
}
