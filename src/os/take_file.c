/* SPDX-License-Identifier: Apache-2.0 */
#include "os/take_file.h"

#include "base/atomic.h"
#include "os/permit.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic bool refused;

bool gf_take_file_is_possible(void)
{
    return gf_permit(gf_permit_take_file) && !gf_load_relaxed(&refused);
}

/*
 * pidfd_getfd reads the table of the process's first thread. A thread that leaves this table never
 * shares it again. So if it shares the table now, it did so when the file was taken.
 */
static bool shares_table(pid_t process, pid_t thread)
{
    return thread == process || syscall(SYS_kcmp, process, thread, KCMP_FILES, 0UL, 0UL) == 0;
}

static long take(pid_t process, int fd)
{
    const long of = syscall(SYS_pidfd_open, process, 0);
    long ret = of;

    if (of >= 0) {
        ret = syscall(SYS_pidfd_getfd, of, fd, 0);
        const int error = errno;
        syscall(SYS_close, of);
        errno = error;
    }
    if (ret < 0 && (errno == ENOSYS || errno == EPERM))
        gf_store_relaxed(&refused, true);
    return ret;
}

int gf_take_file(pid_t process, pid_t thread, int fd)
{
    const long ret = take(process, fd);

    if (ret < 0)
        return -errno;
    if (shares_table(process, thread))
        return (int)ret;
    syscall(SYS_close, ret);
    return -EBADF;
}
