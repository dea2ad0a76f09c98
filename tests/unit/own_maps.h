/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of this process, for tests of mappings. Included after unit.h. */
#ifndef GF_TESTS_OWN_MAPS_H
#define GF_TESTS_OWN_MAPS_H

#include <stdio.h>
#include <unistd.h>

/* Mapped bytes, whether pages are present or not. */
static inline size_t address_space(void)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    size_t pages;

    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%zu", &pages), 1);
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
