/* SPDX-License-Identifier: Apache-2.0 */
/* A recording's topology.xml of any content, which is checked before hwloc parses it. */
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
    struct hwloc_topology *topology;
    struct gf_machine machine = {0};
    struct gf_cpus online;

    put_file(data, size);
    if (gf_topology_open(root, &topology))
        return 0;
    gf_topology_online(topology, &online);
    gf_topology_cores(topology, &machine);
    gf_topology_nodes(topology, &machine);
    for (size_t i = 0; i < machine.node_count; i++)
        CHECK(machine.nodes[i].id < GF_NODES_MAX);
    gf_topology_close(topology);
    free(machine.cores);
    free(machine.nodes);
    return 0;
}
