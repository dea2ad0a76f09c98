/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/block.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096) /* or less than the system's, which is as good for asking */
#define ASKED 16

/*
 * move_pages that names no targets only looks. get_mempolicy(MPOL_F_ADDR), the other way to learn it, would
 * bring in a page that is not there.
 */
static bool ask(void **pages, unsigned count, int *ret_status)
{
    static bool refused;
    const int error = errno;
    bool done = false;

    if (!__atomic_load_n(&refused, __ATOMIC_RELAXED)) {
        done = syscall(SYS_move_pages, 0, (unsigned long)count, pages, NULL, ret_status, 0) >= 0;
        if (!done && (errno == ENOSYS || errno == EPERM))
            __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
    }
    errno = error;
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

int gf_block_node(const void *block, size_t size)
{
    const uintptr_t first = (uintptr_t)block & ~(PAGE - 1);
    const size_t last = ((uintptr_t)block + gf_max(size, (size_t)1) - 1 - first) / PAGE;
    const unsigned count = (unsigned)gf_min(last + 1, (size_t)ASKED);
    void *pages[ASKED];
    int status[ASKED];

    if (!block)
        return -1;
    memset(status, -1, sizeof(status));
    for (unsigned i = 0; i < count; i++)
        pages[i] = (void *)(first + (count > 1 ? last * i / (count - 1) : 0) * PAGE);
    return ask(pages, count, status) ? most_frequent(status, count) : -1;
}
