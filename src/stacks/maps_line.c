/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/maps_line.h"

#include <stdlib.h>
#include <string.h>

FILE *gf_maps_open(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    return fopen(path, "re");
}

/* Parses a line like "start-end rwxp offset device inode path". */
static bool parse(struct gf_maps_line *line)
{
    char *p;

    line->start = strtoul(line->text, &p, 16);
    if (*p++ != '-')
        return false;
    line->end = strtoul(p, &p, 16);
    if (strlen(p) < 6)
        return false;
    line->executable = p[3] == 'x';
    line->offset = strtoul(p + 5, &p, 16);
    for (int field = 0; field < 2; field++) { /* device and inode */
        p += strspn(p, " ");
        p += strcspn(p, " ");
    }
    line->path = p + strspn(p, " ");
    return true;
}

bool gf_maps_next(FILE *maps, struct gf_maps_line *ret)
{
    while (fgets(ret->text, sizeof(ret->text), maps)) {
        ret->text[strcspn(ret->text, "\n")] = '\0';
        if (parse(ret))
            return true;
    }
    return false;
}
