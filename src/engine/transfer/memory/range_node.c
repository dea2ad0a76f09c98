/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/memory/range_node.h"

#include "engine/transfer/memory/page.h"
#include "os/permit.h"

#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLE 32

int gf_range_node_read(const void *at, size_t bytes)
{
    const size_t page_size = gf_page_size();
    void *page[SAMPLE];
    int status[SAMPLE];

    for (size_t i = 0; i < SAMPLE; i++)
        page[i] = (void *)((uintptr_t)at + bytes / SAMPLE * i / page_size * page_size);
    if (!gf_permit(gf_permit_move_pages) ||
        syscall(SYS_move_pages, 0, (unsigned long)SAMPLE, page, NULL, status, 0) != 0)
        return -1;
    for (size_t i = 1; i < SAMPLE; i++)
        if (status[i] != status[0])
            return -1;
    return gf_max(status[0], -1);
}
