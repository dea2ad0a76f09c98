/* SPDX-License-Identifier: Apache-2.0 */
#include "os/page_node.h"

#include "base/atomic.h"
#include "os/permit.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A page of the system may be larger; its size is then a multiple of this. */
#define PAGE ((uintptr_t)4096)
#define PAGES_MAX 16

/*
 * Without target nodes, move_pages only reports the nodes of the pages. get_mempolicy(MPOL_F_ADDR)
 * is not used, because it would populate absent pages.
 */
static bool query_pages(void **pages, unsigned count, int *ret_status)
{
    static _Atomic bool refused;
    const int error = errno;
    bool done = false;

    if (!gf_load_relaxed(&refused) && gf_permit(gf_permit_move_pages)) {
        done = syscall(SYS_move_pages, 0, (unsigned long)count, pages, NULL, ret_status, 0) >= 0;
        if (!done && (errno == ENOSYS || errno == EPERM))
            gf_store_relaxed(&refused, true);
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
    return query_pages(pages, count, status) ? most_frequent(status, count) : -1;
}
