/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files of any content, as log lines name them and as `gpufeed run` inspects them. */
#include "fuzz.h"

#include "base/elf_view.h"
#include "tools/job/job_input.h"
#include "tools/run/program_start.h"

#include <sys/mman.h>
#include <unistd.h>

static void check_parts(const char *path, size_t size)
{
    struct gf_elf_view view;
    char loader[256];
    size_t length;

    if (gf_elf_view_open(path, &view))
        return;
    CHECK(view.size == size);
    const char *strings = gf_elf_view_dynamic_strings(&view, &length);
    CHECK(!strings || length <= size);
    if (strings) {
        char *copy = as_text((const uint8_t *)strings, length);
        CHECK(strlen(copy) <= length);
        free(copy);
    }
    CHECK(!gf_elf_view_interpreter(&view, loader, sizeof(loader)) || strlen(loader) < size);
    gf_elf_view_is_whole(&view);
    const unsigned char *id = gf_elf_view_build_id(&view, &length);
    CHECK(!id || (length && id + length <= view.bytes + view.size));
    gf_elf_view_close(&view);
}

/* `gpufeed run` inspects programs, and the interpreters of scripts. */
static void check_target(const char *path)
{
    struct gf_exec_obstacle obstacle;
    char lacking[256];

    gf_exec_target_inspect(path, &obstacle);
    CHECK(!obstacle.why || *obstacle.why);
    if (gf_exec_target_lacks(path, lacking, sizeof(lacking)))
        CHECK(access(lacking, F_OK) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const ids[] = {"", "00", "0102030405060708090a0b0c0d0e0f1011121314"};
    const int fd = memfd_create("elf", MFD_CLOEXEC);
    char path[64];

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct gf_elfsym *elf = gf_elfsym_open(path, ids[i]);
        if (!elf)
            continue;
        for (uint64_t offset = 0; offset < 0x4000; offset += 0x10) {
            uint64_t distance;
            const char *name = gf_elfsym_function(elf, offset, &distance);
            CHECK(!name || (strlen(name) <= size && distance <= offset));
        }
        gf_elfsym_close(elf);
    }
    check_parts(path, size);
    check_target(path);
    close(fd);
    return 0;
}
