/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Where a sandbox forbids the system call. */
static GF_COLD ssize_t from_file(uintptr_t address, void *ret, size_t size)
{
    const long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const ssize_t got = syscall(SYS_pread64, fd, ret, size, address);
    syscall(SYS_close, fd);
    return got;
}

size_t gf_peek_some(uintptr_t address, void *ret, size_t size)
{
    static bool refused;
    const struct iovec local = {ret, size}, remote = {(void *)address, size};
    const int error = errno;
    ssize_t got = -1;

    if (!__atomic_load_n(&refused, __ATOMIC_RELAXED)) {
        got = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
        if (got < 0 && (errno == ENOSYS || errno == EPERM))
            __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
    }
    if (__atomic_load_n(&refused, __ATOMIC_RELAXED))
        got = from_file(address, ret, size);
    errno = error;
    return got < 0 ? 0 : (size_t)got;
}
