/* SPDX-License-Identifier: Apache-2.0 */
#include "os/elf_fault.h"

#include "base/elf_view.h"

#include <fcntl.h>
#include <sys/stat.h>

static const char truncated[] = "the file is truncated";

static bool read_at(int fd, void *ret, size_t size, uint64_t offset)
{
    return pread(fd, ret, size, (off_t)offset) == (ssize_t)size;
}

static const char *find_fault_in_segments(int fd, const Elf64_Ehdr *header, uint64_t size)
{
    Elf64_Phdr segment;

    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (!read_at(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)))
            return truncated;
        if (segment.p_type == PT_LOAD &&
            (segment.p_offset > size || segment.p_filesz > size - segment.p_offset))
            return truncated;
    }
    return NULL;
}

static const char *find_fault(int fd)
{
    struct stat found;
    Elf64_Ehdr header;

    if (fstat(fd, &found))
        return strerrordesc_np(errno);
    if (!S_ISREG(found.st_mode))
        return "not a regular file";
    if (!found.st_size)
        return "the file is empty";
    if (!read_at(fd, &header, sizeof(header), 0))
        return truncated;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != GF_ELF_MACHINE || header.e_type != ET_DYN ||
        header.e_phentsize != sizeof(Elf64_Phdr))
        return "not a shared library for this processor";
    const char *fault = find_fault_in_segments(fd, &header, (uint64_t)found.st_size);
    if (fault)
        return fault;
    /* Fails on a mount with the option noexec. */
    void *code = mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (code == MAP_FAILED)
        return strerrordesc_np(errno);
    munmap(code, 1);
    return NULL;
}

const char *gf_elf_fault(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return strerrordesc_np(errno);
    const char *fault = find_fault(fd);
    close(fd);
    return fault;
}
