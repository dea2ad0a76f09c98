/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/preplace.h"

#include "base/scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLE 64
#define TEXT ((size_t)8192) /* of a line at least */

struct walk {
    uintptr_t reached, end; /* [reached, end) is still to be met */
    bool plain;
};

/* "55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0    [heap]" */
static void see(struct walk *walk, const char *line)
{
    char *at;
    const uintptr_t from = strtoul(line, &at, 16);
    const uintptr_t to = *at == '-' ? strtoul(at + 1, &at, 16) : 0;

    if (to <= walk->reached || from >= walk->end)
        return;
    const bool writable = strncmp(at, " rw", 3) == 0 && strlen(at) > 5 && at[4] == 'p';
    const char *inode = at;
    for (int i = 0; i < 4; i++) { /* permissions, offset, device, inode */
        inode += strspn(inode, " ");
        if (i < 3)
            inode += strcspn(inode, " ");
    }
    walk->plain = from <= walk->reached && writable && inode[0] == '0' &&
                  (inode[1] == ' ' || inode[1] == '\0');
    walk->reached = walk->plain ? to : UINTPTR_MAX;
}

static void see_all(struct walk *walk, int fd, char *text)
{
    size_t kept = 0;
    long got;

    while (walk->reached < walk->end && (got = syscall(SYS_read, fd, text + kept, TEXT - 1 - kept)) > 0) {
        char *line = text, *newline;
        text[kept + (size_t)got] = '\0';
        for (; (newline = strchr(line, '\n')); line = newline + 1) {
            *newline = '\0';
            if (walk->reached < walk->end)
                see(walk, line);
        }
        kept = strlen(line);
        memmove(text, line, kept);
    }
}

bool gf_preplace_is_plain(const char *file, uintptr_t start, uintptr_t end)
{
    struct walk walk = {.reached = start, .end = end};
    char *text = gf_scratch_take(TEXT);
    const int fd = text ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        see_all(&walk, fd, text);
        syscall(SYS_close, fd);
    }
    gf_scratch_give(text, TEXT);
    return walk.plain && walk.reached >= end;
}

/* By a sample: most memory that is registered has been written to, and costs no more than this. */
static bool mostly_absent(uintptr_t start, size_t bytes, size_t page)
{
    unsigned absent = 0;
    for (size_t i = 0; i < SAMPLE; i++) {
        unsigned char present = 1;
        if (mincore((void *)((start + bytes / SAMPLE * i) / page * page), page, &present) != 0)
            return false; /* a hole */
        absent += !(present & 1);
    }
    return absent > SAMPLE / 2;
}

bool gf_preplace_pays(const void *at, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t)at;

    return start + bytes > start && mostly_absent(start, bytes, page) &&
           gf_preplace_is_plain("/proc/thread-self/maps", start / page * page, start + bytes);
}
