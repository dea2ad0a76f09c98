/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/program_start.h"

#include "base/elf_view.h"

#include <limits.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#define INTERPRETERS_MAX 5 /* the kernel's limit for scripts whose interpreter is a script */

/* 0 or -errno. */
static int check_runnable(const char *file)
{
    struct stat st;

    if (stat(file, &st))
        return -errno;
    return S_ISREG(st.st_mode) && access(file, X_OK) == 0 ? 0 : -EACCES;
}

int gf_exec_target_find(const char *name, const char *path, char *ret, size_t size)
{
    int error = -ENOENT;

    if (strchr(name, '/')) {
        snprintf(ret, size, "%s", name);
        return check_runnable(name);
    }
    if (!*name)
        return -ENOENT;
    for (const char *at = path ? path : "/bin:/usr/bin";; at++) {
        const size_t length = strcspn(at, ":");
        /* An empty entry of PATH means the current folder. */
        const int needed =
            snprintf(ret, size, "%.*s%s%s", (int)length, at, length ? "/" : "", name);
        const int found = needed < (int)size ? check_runnable(ret) : -ENOENT;
        if (found == 0)
            return 0;
        if (found == -EACCES)
            error = -EACCES;
        at += length;
        if (!*at)
            return error;
    }
}

/*
 * Whether the kernel starts the file in secure-execution mode. In this mode the loader ignores each
 * entry of LD_PRELOAD that contains a slash.
 */
static bool gains_privileges(const char *file)
{
    struct stat st;
    struct statvfs fs;

    if (stat(file, &st) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    if (statvfs(file, &fs) == 0 && (fs.f_flag & ST_NOSUID))
        return false;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        return true;
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
        return true;
    return getuid() != 0 && getxattr(file, "security.capability", NULL, 0) > 0;
}

/*
 * Returns which sanitizer the program was built with, as text, or NULL. A sanitizer's run-time
 * serves malloc, and fails or crashes if another library is loaded before it.
 */
static const char *find_sanitizer(const struct gf_elf_view *program)
{
    static const struct {
        const char *symbol, *why;
    } marks[] = {
        {"__asan_init", "built with AddressSanitizer"},
        {"__tsan_init", "built with ThreadSanitizer"},
        {"__msan_init", "built with MemorySanitizer"},
        {"__hwasan_init", "built with HWAddressSanitizer"},
    };
    size_t size;
    const char *strings = gf_elf_view_dynamic_strings(program, &size);

    for (size_t i = 0; strings && i < GF_ARRAY_LEN(marks); i++) {
        char needle[32] = "";
        /* Includes the zero bytes before and after the symbol. */
        const size_t length = strlen(marks[i].symbol) + 2;
        memcpy(needle + 1, marks[i].symbol, length - 2);
        if (memmem(strings, size, needle, length))
            return marks[i].why;
    }
    return NULL;
}

static bool is_foreign(const struct gf_elf_view *program)
{
    const Elf64_Ehdr *header = gf_elf_view_header(program);
    return header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != GF_ELF_MACHINE;
}

static void inspect_program(const struct gf_elf_view *program, struct gf_exec_obstacle *ret)
{
    char loader[PATH_MAX];
    size_t segments;

    if (is_foreign(program)) {
        ret->why = "built for another architecture";
        return;
    }
    if (!gf_elf_view_segments(program, &segments))
        return;
    if (!gf_elf_view_segment(program, PT_INTERP)) {
        *ret = (struct gf_exec_obstacle){"statically linked", true};
        return;
    }
    ret->why = gf_elf_view_interpreter(program, loader, sizeof(loader)) && strstr(loader, "ld-musl")
                   ? "built for musl instead of glibc"
                   : find_sanitizer(program);
}

/*
 * Copies the path after "#!" of a script's first line; false if absent. As in the kernel, a
 * carriage return is part of the path, and the line has at most 255 bytes.
 */
static bool read_script_interpreter(const struct gf_elf_view *script, char *ret, size_t size)
{
    char line[256] = "";

    memcpy(line, script->bytes, gf_min(script->size, sizeof(line) - 1));
    if (strncmp(line, "#!", 2) != 0)
        return false;
    const char *path = line + 2 + strspn(line + 2, " \t");
    const size_t length = strcspn(path, " \t\n");
    snprintf(ret, size, "%.*s", (int)length, path);
    return length > 0;
}

void gf_exec_target_inspect(const char *file, struct gf_exec_obstacle *ret)
{
    char name[PATH_MAX];
    struct gf_elf_view view;
    bool is_script = true;

    *ret = (struct gf_exec_obstacle){NULL, false};
    snprintf(name, sizeof(name), "%s", file);
    for (int depth = 0; is_script && depth < INTERPRETERS_MAX; depth++) {
        if (gf_elf_view_open(name, &view))
            return;
        is_script = !gf_elf_view_header(&view);
        if (is_script)
            is_script = read_script_interpreter(&view, name, sizeof(name));
        else if (gains_privileges(name))
            *ret = (struct gf_exec_obstacle){"setuid, setgid or has file capabilities", true};
        else
            inspect_program(&view, ret);
        gf_elf_view_close(&view);
    }
}

bool gf_exec_target_lacks(const char *file, char *ret, size_t size)
{
    struct gf_elf_view view;

    snprintf(ret, size, "%s", file);
    for (int depth = 0; depth < INTERPRETERS_MAX; depth++) {
        const int error = gf_elf_view_open(ret, &view);
        if (error)
            return depth > 0 && error == -ENOENT;
        const bool is_program = gf_elf_view_header(&view);
        const bool needs_another =
            is_program ? !is_foreign(&view) && gf_elf_view_interpreter(&view, ret, size)
                       : read_script_interpreter(&view, ret, size);
        gf_elf_view_close(&view);
        if (!needs_another)
            return false;
        if (is_program)
            return access(ret, F_OK) != 0 && errno == ENOENT;
    }
    return false;
}
