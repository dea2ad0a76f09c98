/* SPDX-License-Identifier: Apache-2.0 */
/* As in <linux/fs.h> since Linux 6.11, which is newer than the headers that we build with. */
#ifndef GF_TRANSFER_PROCMAP_QUERY_H
#define GF_TRANSFER_PROCMAP_QUERY_H

#include <stdint.h>
#include <sys/ioctl.h>

struct procmap_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};

#define MAP_QUERY _IOWR('f', 17, struct procmap_query)
#define MAP_READABLE 1
#define MAP_WRITABLE 2
#define MAP_SHARED_ 8

#endif
