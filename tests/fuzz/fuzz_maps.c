/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/PID/maps: a path may contain any character, and be longer than the kernel's limit. */
#include "fuzz.h"

#include "tools/stacks/examine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gf_maps_line line;
    FILE *maps = fmemopen((void *)(uintptr_t)data, size, "r");
    size_t lines = 0;

    while (maps && gf_maps_next(maps, &line)) {
        CHECK(line.path >= line.text && line.path < line.text + sizeof(line.text));
        CHECK(strlen(line.path) < sizeof(line.text) && !strchr(line.path, '\n'));
        lines++;
    }
    CHECK(lines <= size);
    if (maps)
        fclose(maps);
    return 0;
}
