/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into the staging ring. The device reads the bytes next; no processor reads them again. The
 * ring's cache lines are still modified in the cache of the CPU that wrote them last. An ordinary
 * store would first fetch such a line; a non-temporal store overwrites it in memory. Copies out of
 * the ring use memcpy, because the program reads the result next.
 *
 * Non-temporal stores write every line to memory, and the device reads the line from memory at
 * once. So with many threads, memory bandwidth limits large copies. The variant with CLDEMOTE moves
 * lines to the cache that all cores share, and the device reads them from that cache. With this
 * variant each thread is slower, but all threads together are faster. Ordinary stores without
 * CLDEMOTE would leave the lines in the writing core's own cache, from which the device reads at a
 * third of its speed. Measurements: bench/NOTES.md.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_NT_COPY_H
#define GF_ENGINE_TRANSFER_MEMORY_NT_COPY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Copies to an address `to` that is aligned to 64 bytes. A DMA that is issued after the call reads
 * the new bytes. May be called on any thread.
 */
void gf_nt_copy(char *to, const char *from, size_t bytes);

/* The same as gf_nt_copy, but with CLDEMOTE if the processor has this instruction. */
void gf_cldemote_copy(char *to, const char *from, size_t bytes);
bool gf_cldemote_is_possible(void);

/* The implementations, for tests. Each copies whole lines of 64 bytes. */
struct gf_nt_copy_way {
    /* the processor has the vector registers that copy_lines uses, and the kernel saves them */
    bool (*can_run)(void);
    void (*copy_lines)(char *to, const char *from, size_t bytes);
    bool demotes;
};
/*
 * Returns the implementations; those with the widest registers come first. *ret_count is 0 on
 * processors for which gf_nt_copy calls memcpy.
 */
const struct gf_nt_copy_way *gf_nt_copy_ways(size_t *ret_count);

#endif
