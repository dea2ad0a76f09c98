/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A malloc tracer that calls glibc's __libc_* functions, as filprofiler's does. It puts a header
 * before each block, so a block of another allocator ends the process. It is preloaded, or linked
 * into a library or a program.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static const size_t MARK = 0x7ace7ace;
struct header {
    void *start;
    size_t size, mark, unused;
};

static volatile unsigned long calls;

static void *marked(void *start, size_t offset, size_t size)
{
    if (!start)
        return NULL;
    void *block = (char *)start + offset;
    ((struct header *)block)[-1] = (struct header){.start = start, .size = size, .mark = MARK};
    calls++;
    return block;
}

static struct header *header_of(void *block)
{
    struct header *found = (struct header *)block - 1;
    if (found->mark != MARK) {
        write(2, "not a block of the tracer\n", 26);
        _exit(9);
    }
    return found;
}

void *malloc(size_t size)
{
    return marked(__libc_malloc(size + sizeof(struct header)), sizeof(struct header), size);
}

void *calloc(size_t count, size_t size)
{
    return marked(__libc_calloc(1, count * size + sizeof(struct header)), sizeof(struct header),
                  count * size);
}

void free(void *block)
{
    if (!block)
        return;
    struct header *header = header_of(block);
    header->mark = 0;
    __libc_free(header->start);
}

void *memalign(size_t alignment, size_t size)
{
    const size_t offset = alignment < sizeof(struct header) ? sizeof(struct header) : alignment;
    return marked(__libc_memalign(offset, size + offset), offset, size);
}

void *realloc(void *block, size_t size)
{
    if (!block)
        return malloc(size);
    struct header *header = header_of(block);
    if ((char *)header->start + sizeof(*header) == block)
        return marked(__libc_realloc(header->start, size + sizeof(*header)), sizeof(*header), size);
    char *moved = malloc(size);
    for (size_t i = 0; moved && i < size && i < header->size; i++)
        moved[i] = ((char *)block)[i];
    if (moved)
        free(block);
    return moved;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}
void *valloc(size_t size)
{
    return memalign(4096, size);
}
void *pvalloc(size_t size)
{
    return memalign(4096, (size + 4095) & -4096ul);
}
size_t malloc_usable_size(void *block)
{
    return block ? header_of(block)->size : 0;
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
    void *block = memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *ret = block;
    return 0;
}

unsigned long traced(void)
{
    return calls;
}
