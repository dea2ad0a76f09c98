/* SPDX-License-Identifier: Apache-2.0 */
#include "os/safe_read.h"

#include "base/atomic.h"
#include "os/kept_file.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The file through which memory is read if a sandbox forbids process_vm_readv. */
static struct gf_kept_file memory = GF_KEPT_FILE("/proc/thread-self/mem");
static _Atomic bool refused;

struct read {
    uintptr_t address;
    void *ret;
    size_t size;
    ssize_t got;
};

static void open_and_read(void *closure)
{
    struct read *read = closure;
    const int fd = gf_procfs_open(AT_FDCWD, memory.path);

    if (fd < 0)
        return;
    read->got = syscall(SYS_pread64, fd, read->ret, read->size, read->address);
    gf_procfs_close(fd);
}

static GF_COLD ssize_t read_mem_file(uintptr_t address, void *ret, size_t size)
{
    struct read read = {address, ret, size, -1};
    const int fd = gf_permit_sealed() ? -1 : gf_kept_file_get(&memory);

    if (fd >= 0)
        return syscall(SYS_pread64, fd, ret, size, address);
    /* The file is not open, for example in a forked child. */
    gf_own_table_run(open_and_read, &read);
    return read.got;
}

static ssize_t read_by_call(uintptr_t address, void *ret, size_t size)
{
    const struct iovec local = {ret, size}, remote = {(void *)address, size};
    ssize_t got = -1;

    if (!gf_permit(gf_permit_read_memory))
        gf_store_relaxed(&refused, true);
    if (gf_load_relaxed(&refused))
        return -1;
    got = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
    if (got < 0 && (errno == ENOSYS || errno == EPERM))
        gf_store_relaxed(&refused, true);
    return got;
}

size_t gf_safe_read_some(uintptr_t address, void *ret, size_t size)
{
    const int error = errno;
    ssize_t got = read_by_call(address, ret, size);

    if (gf_load_relaxed(&refused))
        got = read_mem_file(address, ret, size);
    errno = error;
    return got < 0 ? 0 : (size_t)got;
}

void gf_safe_read_start(void)
{
    const int error = errno;
    char byte = 0;

    read_by_call((uintptr_t)&byte, &byte, sizeof(byte));
    if (gf_load_relaxed(&refused))
        gf_kept_file_open(&memory);
    errno = error;
}
