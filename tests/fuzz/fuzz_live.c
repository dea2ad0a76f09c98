/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in memory from which `gpufeed top` reads a process's figures. The text may be any. The
 * header is valid, unless the input begins with '!': then the input begins with the header.
 */
#include "fuzz.h"

#include "abi/formats.h"
#include "tools/top/top.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static void put_file(int fd, const uint8_t *data, size_t size)
{
    struct gf_live_header header = {
        .version = GF_LIVE_VERSION, .pid = getpid(), .text_at = sizeof(header), .text_bytes = size};

    memcpy(header.magic, GF_LIVE_MAGIC, sizeof(header.magic));
    if (size && *data == '!') {
        memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
        header.pid = getpid();
    }
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
    CHECK(pwrite(fd, data, size, sizeof(header)) == (ssize_t)size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static struct gf_top_history history;
    struct gf_process_figures figures;
    struct gf_snapshot snapshot;

    if (fd < 0) {
        fd = memfd_create(GF_LIVE_NAME, MFD_CLOEXEC);
        prctl(PR_SET_NAME, "gpufeed");
    }
    put_file(fd, data, size);
    gf_snapshot_read(getpid(), &snapshot);
    gf_process_figures_add(&history, &snapshot);
    gf_process_figures_read(&snapshot, &history, &figures);
    for (const char *at = figures.idle_cause; *at; at++)
        CHECK((unsigned char)*at >= 0x20);
    for (const char *at = figures.stall_cause; *at; at++)
        CHECK((unsigned char)*at >= 0x20);
    CHECK(figures.idle <= 1 && figures.steps >= 0);
    json_decref(snapshot.report);
    return 0;
}
