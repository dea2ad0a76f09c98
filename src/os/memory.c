/* SPDX-License-Identifier: Apache-2.0 */
#include "os/memory.h"

#include "base/atomic.h"
#include "os/files.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <pthread.h>
#include <sys/uio.h>

/* The file through which memory is read if a sandbox forbids process_vm_readv. */
static struct gf_kept_file memory = GF_KEPT_FILE("/proc/thread-self/mem");
static _Atomic bool reading_is_refused;

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
        gf_store_relaxed(&reading_is_refused, true);
    if (gf_load_relaxed(&reading_is_refused))
        return -1;
    got = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
    if (got < 0 && (errno == ENOSYS || errno == EPERM))
        gf_store_relaxed(&reading_is_refused, true);
    return got;
}

size_t gf_safe_read_some(uintptr_t address, void *ret, size_t size)
{
    gf_keep_errno();
    ssize_t got = read_by_call(address, ret, size);

    if (gf_load_relaxed(&reading_is_refused))
        got = read_mem_file(address, ret, size);
    return got < 0 ? 0 : (size_t)got;
}

/* A child that gives up its rights would keep the one to read its parent's memory. */
static void memory_in_child(void)
{
    gf_kept_file_close_in_child(&memory);
}

void gf_safe_read_start(void)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    gf_keep_errno();
    char byte = 0;

    read_by_call((uintptr_t)&byte, &byte, sizeof(byte));
    if (!gf_load_relaxed(&reading_is_refused))
        return;
    if (!atomic_flag_test_and_set_explicit(&registered, memory_order_relaxed))
        pthread_atfork(NULL, NULL, memory_in_child);
    gf_kept_file_open(&memory);
}

/* A page of the system may be larger; its size is then a multiple of this. */
#define PAGE ((uintptr_t)4096)
#define PAGES_MAX 16

/* get_mempolicy(MPOL_F_ADDR) is not used, because it would populate absent pages. */
bool gf_pages_query(void **pages, unsigned count, int *ret_status)
{
    static _Atomic bool refused;
    gf_keep_errno();
    bool done = false;

    if (!gf_load_relaxed(&refused) && gf_permit(gf_permit_move_pages)) {
        done = syscall(SYS_move_pages, 0, (unsigned long)count, pages, NULL, ret_status, 0) >= 0;
        if (!done && (errno == ENOSYS || errno == EPERM))
            gf_store_relaxed(&refused, true);
    }
    return done;
}

static int most_frequent(const int *status, unsigned count)
{
    unsigned most = 0;
    int ret = -1;

    for (unsigned i = 0; i < count; i++) {
        unsigned same = 0;
        for (unsigned j = 0; j < count; j++)
            same += status[j] == status[i];
        if (status[i] >= 0 && same > most) {
            most = same;
            ret = status[i];
        }
    }
    return ret;
}

int gf_page_node(const void *block, size_t size)
{
    const uintptr_t first = (uintptr_t)block & ~(PAGE - 1);
    const size_t last = ((uintptr_t)block + gf_max(size, (size_t)1) - 1 - first) / PAGE;
    const unsigned count = (unsigned)gf_min(last + 1, (size_t)PAGES_MAX);
    void *pages[PAGES_MAX];
    int status[PAGES_MAX];

    if (!block)
        return -1;
    memset(status, -1, sizeof(status));
    for (unsigned i = 0; i < count; i++)
        pages[i] = (void *)(first + (count > 1 ? last * i / (count - 1) : 0) * PAGE);
    return gf_pages_query(pages, count, status) ? most_frequent(status, count) : -1;
}
