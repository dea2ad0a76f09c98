/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#error "gpufeed knows x86-64 and aarch64"
#endif

#define MAX_HEADERS 64
#define MAX_STRINGS (UINT64_C(64) << 20) /* a dynamic string table beyond this is no program's */

static int runnable(const char *file)
{
    struct stat st;

    if (stat(file, &st))
        return -errno;
    return S_ISREG(st.st_mode) && access(file, X_OK) == 0 ? 0 : -EACCES;
}

int gf_program_find(const char *name, const char *path, char *ret, size_t size)
{
    int error = -ENOENT;

    if (strchr(name, '/')) {
        snprintf(ret, size, "%s", name);
        return runnable(name);
    }
    if (!*name)
        return -ENOENT;
    for (const char *at = path ? path : "/bin:/usr/bin";; at++) {
        const size_t length = strcspn(at, ":");
        /* An empty entry is the current folder. */
        const int needed = snprintf(ret, size, "%.*s%s%s", (int)length, at, length ? "/" : "", name);
        const int found = needed < (int)size ? runnable(ret) : -ENOENT;
        if (found == 0)
            return 0;
        if (found == -EACCES)
            error = -EACCES;
        at += length;
        if (!*at)
            return error;
    }
}

/* Whether the kernel will start it in secure mode, where the loader drops preloads with a slash. */
static bool gains_privileges(int fd)
{
    struct stat st;
    struct statvfs fs;

    if (fstat(fd, &st) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOSUID))
        return false;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        return true;
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
        return true;
    return getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

struct image {
    int fd;
    Elf64_Phdr headers[MAX_HEADERS];
    unsigned count;
};

static bool read_at(int fd, void *buf, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, buf, size, (off_t)offset) == (ssize_t)size;
}

static const Elf64_Phdr *header(const struct image *image, uint32_t type)
{
    for (unsigned i = 0; i < image->count; i++)
        if (image->headers[i].p_type == type)
            return &image->headers[i];
    return NULL;
}

/* Where the loaded address stands in the file; UINT64_MAX when nowhere. */
static uint64_t file_offset(const struct image *image, uint64_t address)
{
    for (unsigned i = 0; i < image->count; i++) {
        const Elf64_Phdr *h = &image->headers[i];
        if (h->p_type == PT_LOAD && address >= h->p_vaddr && address - h->p_vaddr < h->p_filesz)
            return h->p_offset + (address - h->p_vaddr);
    }
    return UINT64_MAX;
}

/* The names that the dynamic linker sees, symbols and needed libraries alike. Caller frees. */
static char *dynamic_strings(const struct image *image, size_t *ret_size)
{
    const Elf64_Phdr *dynamic = header(image, PT_DYNAMIC);
    uint64_t address = 0, size = 0;

    for (uint64_t at = 0; dynamic && at + sizeof(Elf64_Dyn) <= dynamic->p_filesz;
         at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        if (!read_at(image->fd, &entry, sizeof(entry), dynamic->p_offset + at) ||
            entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_STRTAB)
            address = entry.d_un.d_ptr;
        else if (entry.d_tag == DT_STRSZ)
            size = entry.d_un.d_val;
    }
    if (!address || size < 2 || size > MAX_STRINGS)
        return NULL;
    char *strings = malloc(size);
    if (strings && !read_at(image->fd, strings, size, file_offset(image, address))) {
        free(strings);
        return NULL;
    }
    *ret_size = size;
    return strings;
}

/* Their run-times serve malloc themselves and refuse, or crash behind, anything that comes first. */
static const char *sanitizer(const struct image *image)
{
    static const struct {
        const char *symbol, *why;
    } marks[] = {
        {"__asan_init", "built with AddressSanitizer"},
        {"__tsan_init", "built with ThreadSanitizer"},
        {"__msan_init", "built with MemorySanitizer"},
        {"__hwasan_init", "built with HWAddressSanitizer"},
    };
    size_t size = 0;
    char *strings = dynamic_strings(image, &size);
    const char *why = NULL;

    for (size_t i = 0; strings && !why && i < GF_ARRAY_LEN(marks); i++) {
        char needle[32] = "";
        const size_t length = strlen(marks[i].symbol) + 2; /* the zero byte on either side, too */
        memcpy(needle + 1, marks[i].symbol, length - 2);
        if (memmem(strings, size, needle, length))
            why = marks[i].why;
    }
    free(strings);
    return why;
}

static bool read_headers(int fd, const Elf64_Ehdr *elf, struct image *ret)
{
    ret->fd = fd;
    if (elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phnum > MAX_HEADERS ||
        !read_at(fd, ret->headers, elf->e_phnum * sizeof(Elf64_Phdr), elf->e_phoff))
        return false;
    ret->count = elf->e_phnum;
    return true;
}

static bool is_foreign(const Elf64_Ehdr *elf)
{
    return elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_machine != OWN_MACHINE;
}

/* The path of the loader that the program asks for; false where it cannot be read. */
static bool read_loader(const struct image *image, char *ret, size_t size)
{
    const Elf64_Phdr *interp = header(image, PT_INTERP);

    memset(ret, 0, size);
    return interp && interp->p_filesz && interp->p_filesz < size &&
           read_at(image->fd, ret, interp->p_filesz, interp->p_offset);
}

static void inspect_elf(int fd, const Elf64_Ehdr *elf, struct gf_obstacle *ret)
{
    struct image image = {.fd = fd};
    char loader[PATH_MAX];

    if (is_foreign(elf)) {
        ret->why = "built for another architecture";
        return;
    }
    if (!read_headers(fd, elf, &image))
        return;
    if (!header(&image, PT_INTERP)) {
        *ret = (struct gf_obstacle){"statically linked", true};
        return;
    }
    if (read_loader(&image, loader, sizeof(loader)) && strstr(loader, "ld-musl")) {
        ret->why = "built for musl instead of glibc";
        return;
    }
    ret->why = sanitizer(&image);
}

/* The path behind "#!" in head, to the kernel a carriage return is part of it; false when there is none. */
static bool script_interpreter(const char *head, char *ret, size_t size)
{
    if (strncmp(head, "#!", 2) != 0)
        return false;
    head += 2 + strspn(head + 2, " \t");
    const size_t length = strcspn(head, " \t\n");
    snprintf(ret, size, "%.*s", (int)length, head);
    return length > 0;
}

union head {
    Elf64_Ehdr elf;
    char text[256];
};

/* A descriptor, or -1 where the file cannot be read; head is NUL-terminated. */
static int open_head(const char *name, union head *ret, bool *ret_elf)
{
    const int fd = open(name, O_RDONLY | O_CLOEXEC);

    memset(ret, 0, sizeof(*ret));
    if (fd < 0)
        return -1;
    const ssize_t length = pread(fd, ret->text, sizeof(ret->text) - 1, 0);
    *ret_elf = length >= (ssize_t)sizeof(ret->elf) && memcmp(ret->text, ELFMAG, SELFMAG) == 0;
    return fd;
}

#define DEEPEST 5 /* scripts of scripts: the kernel follows as many */

void gf_program_inspect(const char *file, struct gf_obstacle *ret)
{
    char name[PATH_MAX];

    *ret = (struct gf_obstacle){NULL, false};
    snprintf(name, sizeof(name), "%s", file);
    for (int depth = 0; depth < DEEPEST; depth++) {
        union head head;
        bool is_elf;
        const int fd = open_head(name, &head, &is_elf);
        if (fd < 0)
            return;
        if (is_elf && gains_privileges(fd))
            *ret = (struct gf_obstacle){"setuid, setgid or has file capabilities", true};
        else if (is_elf)
            inspect_elf(fd, &head.elf, ret);
        close(fd);
        if (is_elf || !script_interpreter(head.text, name, sizeof(name)))
            return;
    }
}

bool gf_program_lacks(const char *file, char *ret, size_t size)
{
    snprintf(ret, size, "%s", file);
    for (int depth = 0; depth < DEEPEST; depth++) {
        union head head;
        bool is_elf;
        const int fd = open_head(ret, &head, &is_elf);
        if (fd < 0)
            return depth > 0 && errno == ENOENT;
        struct image image = {.fd = fd};
        const bool found = is_elf ? !is_foreign(&head.elf) && read_headers(fd, &head.elf, &image) &&
                                        read_loader(&image, ret, size)
                                  : script_interpreter(head.text, ret, size);
        close(fd);
        if (!found)
            return false;
        if (is_elf)
            return access(ret, F_OK) != 0 && errno == ENOENT;
    }
    return false;
}
