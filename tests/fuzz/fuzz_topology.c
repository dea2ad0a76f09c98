/* SPDX-License-Identifier: Apache-2.0 */
/* A recording's topology.xml of any content, which the library parses itself. */
#include "fuzz.h"

#include "host/topology.h"

#include <fcntl.h>
#include <unistd.h>

static char root[] = "/dev/shm/gpufeed-fuzz-XXXXXX", path[sizeof(root) + 16];

static void remove_root(void)
{
    unlink(path);
    rmdir(root);
}

static void put_file(const uint8_t *data, size_t size)
{
    if (!*path) {
        CHECK(mkdtemp(root));
        snprintf(path, sizeof(path), "%s/topology.xml", root);
        atexit(remove_root);
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gf_machine *machine = calloc(1, sizeof(*machine));

    put_file(data, size);
    CHECK(machine);
    if (!gf_topology_read(root, machine))
        CHECK(machine->core_count && machine->node_count);
    for (size_t i = 0; i < machine->node_count; i++)
        CHECK(machine->nodes[i].id < GF_NODES_MAX);
    gf_machine_free(machine);
    return 0;
}
