/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeroes memory that another block used before. A program seldom fills a whole pinned buffer,
 * because frameworks round sizes up. So many pages of such memory are still zero. With wide vector
 * registers, checking whether a page is zero takes a third of the time of writing the page.
 * Measurements: bench/NOTES.md.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_ZERO_H
#define GF_ENGINE_TRANSFER_PINNED_ZERO_H

#include <stdbool.h>
#include <stddef.h>

#define GF_ZERO_PAGE ((size_t)4096) /* the unit that is checked, and zeroed if needed */

/* Zeroes a range that no other thread writes. May be called on any thread. */
void gf_zero(char *at, size_t bytes);

/* One way to check a page that is aligned to GF_ZERO_PAGE. Tests use each way. */
struct gf_zero_way {
    /* the processor has the vector registers for it, and the kernel saves them */
    bool (*can_run)(void);
    bool (*is_zero_page)(const char *page);
};
/*
 * Returns the ways; those with the widest registers come first. If the processor supports none of
 * them, gf_zero only calls memset.
 */
const struct gf_zero_way *gf_zero_ways(size_t *ret_count);

#endif
