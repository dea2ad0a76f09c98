/* SPDX-License-Identifier: Apache-2.0 */
#include "os/safe_read.h"

#include "base/atomic.h"
#include "os/permit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Fallback for sandboxes that forbid process_vm_readv. */
static GF_COLD ssize_t read_mem_file(uintptr_t address, void *ret, size_t size)
{
    if (gf_permit_sealed())
        return -1;
    const long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const ssize_t got = syscall(SYS_pread64, fd, ret, size, address);
    syscall(SYS_close, fd);
    return got;
}

size_t gf_safe_read_some(uintptr_t address, void *ret, size_t size)
{
    static _Atomic bool refused;
    const struct iovec local = {ret, size}, remote = {(void *)address, size};
    const int error = errno;
    ssize_t got = -1;

    if (!gf_permit(gf_permit_read_memory))
        gf_store_relaxed(&refused, true);
    if (!gf_load_relaxed(&refused)) {
        got = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
        if (got < 0 && (errno == ENOSYS || errno == EPERM))
            gf_store_relaxed(&refused, true);
    }
    if (gf_load_relaxed(&refused))
        got = read_mem_file(address, ret, size);
    errno = error;
    return got < 0 ? 0 : (size_t)got;
}
