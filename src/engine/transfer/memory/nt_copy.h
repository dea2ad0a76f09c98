/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into the staging ring. The device reads the bytes next; no processor reads them again. The
 * lines in the ring are modified in the cache of the thread that wrote them last. Non-temporal
 * stores overwrite lines without fetching them from there. Copies out of the ring use memcpy,
 * because the program reads the result next.
 *
 * Non-temporal stores write every line to memory, and the device reads it back at once. So with
 * many threads, memory bandwidth limits large copies. The variant with CLDEMOTE leaves lines in the
 * cache that all processors share, and the device reads them there. Each thread is slower with it,
 * but all threads together are faster. Ordinary stores would leave the lines in the writer's own
 * cache, from which the device reads at a third of its speed. Measurements: bench/NOTES.md.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_NT_COPY_H
#define GF_ENGINE_TRANSFER_MEMORY_NT_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* `to` is aligned to 64 bytes. Any thread. A DMA that is issued afterwards reads the new bytes. */
void gf_nt_copy(char *to, const char *from, size_t bytes);

/* The same, with CLDEMOTE where the processor has it. */
void gf_cldemote_copy(char *to, const char *from, size_t bytes);
bool gf_cldemote_is_possible(void);

/* The implementations, for tests. Each copies whole lines of 64 bytes. */
struct gf_nt_copy_way {
    bool (*can_run)(void); /* the processor has the registers, and the kernel saves them */
    void (*copy_lines)(char *to, const char *from, size_t bytes);
    bool demotes;
};
/* The widest comes first. *ret_count is 0 where gf_nt_copy is memcpy. */
const struct gf_nt_copy_way *gf_nt_copy_ways(size_t *ret_count);

#endif
