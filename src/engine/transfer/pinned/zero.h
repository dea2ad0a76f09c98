/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeroing memory that another block used before. A program seldom fills a whole pinned buffer,
 * because frameworks round sizes up. So many pages are still zero. With wide registers, checking a
 * page for zeros takes a third of the time of writing it. Measurements: bench/NOTES.md.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_ZERO_H
#define GF_ENGINE_TRANSFER_PINNED_ZERO_H

#include <stdbool.h>
#include <stddef.h>

#define GF_ZERO_PAGE ((size_t)4096) /* the unit that is checked, and zeroed if needed */

/* Zeroes a range that no other thread writes. Any thread. */
void gf_zero(char *at, size_t bytes);

/* The ways to check a page, which is aligned to GF_ZERO_PAGE; for tests. */
struct gf_zero_way {
    bool (*can_run)(void); /* the processor has the registers, and the kernel saves them */
    bool (*is_zero_page)(const char *page);
};
/* The widest comes first. If the processor supports none of them, gf_zero is memset. */
const struct gf_zero_way *gf_zero_ways(size_t *ret_count);

#endif
