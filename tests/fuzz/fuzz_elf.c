/* SPDX-License-Identifier: Apache-2.0 */
/* A log names files, in which functions are looked up: whatever these hold now. */
#include "fuzz.h"

#include "cli/elfsym.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const ids[] = {"", "00", "0102030405060708090a0b0c0d0e0f1011121314"};
    const int fd = memfd_create("elf", MFD_CLOEXEC);
    char path[64];

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct gf_elf *elf = gf_elf_open(path, ids[i]);
        if (!elf)
            continue;
        for (uint64_t offset = 0; offset < 0x4000; offset += 0x10) {
            uint64_t distance;
            const char *name = gf_elf_function(elf, offset, &distance);
            CHECK(!name || (strlen(name) <= size && distance <= offset));
        }
        gf_elf_close(elf);
    }
    close(fd);
    return 0;
}
