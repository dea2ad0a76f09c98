/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/process_read.h"

#include "os/permit.h"
#include "os/memory.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

size_t gf_process_read_some(pid_t pid, uintptr_t address, void *ret, size_t size)
{
    const struct iovec local = {ret, size}, remote = {(void *)address, size};

    if (!pid)
        return gf_safe_read_some(address, ret, size);
    if (!gf_permit(gf_permit_read_memory))
        return 0;
    const int error = errno;
    const ssize_t got = syscall(SYS_process_vm_readv, pid, &local, 1UL, &remote, 1UL, 0UL);
    errno = error;
    return got < 0 ? 0 : (size_t)got;
}
