/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/prefault.h"

#include "engine/transfer/pages.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE 64
#define TEXT ((size_t)8192) /* size of a buffer into which any line of maps fits */

struct walk {
    const char *file;
    uintptr_t reached, end; /* the part of the range that is not checked yet */
    bool plain;
};

/* Parses a line of maps, such as "55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0 [heap]". */
static void walk_line(struct walk *walk, const char *line)
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

static void walk_file(void *closure)
{
    struct walk *walk = closure;
    char text[TEXT];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    const char *line;

    if (!gf_procfs_lines_open(&lines, walk->file))
        return;
    while (walk->reached < walk->end && (line = gf_procfs_lines_next(&lines)))
        walk_line(walk, line);
    gf_procfs_lines_close(&lines);
}

bool gf_prefault_is_plain(const char *file, uintptr_t start, uintptr_t end)
{
    struct walk walk = {.file = file, .reached = start, .end = end};

    gf_own_table_run(walk_file, &walk);
    return walk.plain && walk.reached >= end;
}

bool gf_prefault_pays(const void *at, size_t bytes)
{
    const uintptr_t start = (uintptr_t)at;

    /*
     * Most memory that a program registers was written before. For such memory gf_absent_mostly is
     * false, so no file of /proc is read.
     */
    return start + bytes > start && gf_absent_mostly(start, bytes, SAMPLE) &&
           gf_prefault_is_plain("/proc/thread-self/maps", start / gf_page_size() * gf_page_size(),
                                start + bytes);
}
