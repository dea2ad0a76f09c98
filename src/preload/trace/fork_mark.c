/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/fork_mark.h"

#include "base/atomic.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES 4096UL /* the kernel rounds the size up to a page */

static _Atomic unsigned *_Atomic mark; /* NULL if the kernel cannot wipe pages on fork */

static void map_mark(void)
{
    void *page = (void *)syscall(SYS_mmap, NULL, BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);

    if (page == MAP_FAILED)
        return;
    if (syscall(SYS_madvise, page, BYTES, MADV_WIPEONFORK) == 0)
        gf_store_release(&mark, page);
    else
        syscall(SYS_munmap, page, BYTES);
}

void gf_fork_mark_set(void)
{
    const int error = errno;

    if (!gf_load_acquire(&mark))
        map_mark();
    _Atomic unsigned *word = gf_load_acquire(&mark);
    if (word)
        gf_store_release(word, 1);
    errno = error;
}

bool gf_fork_mark_copied(void)
{
    const _Atomic unsigned *word = gf_load_acquire(&mark);

    return !word || gf_load_acquire(word) == 0;
}
