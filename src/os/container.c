/* SPDX-License-Identifier: Apache-2.0 */
#include "os/container.h"

#include "os/own_table.h"
#include "os/procfs.h"

#include <string.h>

struct run {
    char digits[GF_CONTAINER_ID];
    size_t length;
};

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/*
 * Adds the next character of the text. Returns true if the character ends a run of exactly 64 hex
 * digits.
 */
static bool feed_run(struct run *run, char c)
{
    if (is_hex(c)) {
        if (run->length < GF_CONTAINER_ID - 1)
            run->digits[run->length] = c;
        run->length++;
        return false;
    }
    const bool whole = run->length == GF_CONTAINER_ID - 1;
    if (!whole)
        run->length = 0;
    return whole;
}

static bool find_run(const char *path, struct run *run)
{
    const int fd = gf_procfs_open(AT_FDCWD, path);
    char buf[512];
    bool found = false;

    if (fd < 0)
        return false;
    for (ssize_t got; !found && (got = gf_procfs_chunk(fd, buf, sizeof(buf))) > 0;)
        for (ssize_t i = 0; i < got && !found; i++)
            found = feed_run(run, buf[i]);
    gf_procfs_close(fd);
    return found;
}

static void find_id(void *closure)
{
    /*
     * In a cgroup namespace, the first file shows no path. Then the id is in the paths of the
     * container's mounts.
     */
    static const char *const paths[] = {"/proc/self/cgroup", "/proc/self/mountinfo"};

    for (size_t i = 0; i < GF_ARRAY_LEN(paths); i++) {
        struct run run = {.length = 0};
        if (!find_run(paths[i], &run))
            continue;
        memcpy(closure, run.digits, GF_CONTAINER_ID - 1);
        return;
    }
}

bool gf_container_id(char ret[GF_CONTAINER_ID])
{
    memset(ret, 0, GF_CONTAINER_ID);
    gf_own_table_run(find_id, ret);
    return *ret;
}
