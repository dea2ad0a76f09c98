/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/fmt.h"
#include "base/path.h"

#include <fcntl.h>
#include <sys/stat.h>

static enum gf_log_level current_level = GF_LOG_SILENT;
static unsigned current_areas; /* atomic */
static char process_name[40];  /* "" or "rank 3: "; constant after the start */
/* The file that descriptor 2 had at the start. */
static struct {
    bool known; /* atomic */
    dev_t device;
    ino_t inode;
} expected;

void gf_log_set_level(enum gf_log_level level)
{
    __atomic_store_n(&current_level, level, __ATOMIC_RELAXED);
}

bool gf_log_wants(enum gf_log_level level)
{
    return level <= __atomic_load_n(&current_level, __ATOMIC_RELAXED);
}

void gf_log_set_areas(unsigned bits)
{
    __atomic_store_n(&current_areas, bits, __ATOMIC_RELAXED);
}

bool gf_log_wants_area(enum gf_log_area area)
{
    return __atomic_load_n(&current_areas, __ATOMIC_RELAXED) >> area & 1 &&
           gf_log_wants(GF_LOG_WARN);
}

void gf_log_set_process(const char *name)
{
    gf_fmt(process_name, sizeof(process_name), "%s: ", name);
}

void gf_log_expect_stderr(dev_t device, ino_t inode)
{
    expected.device = device;
    expected.inode = inode;
    __atomic_store_n(&expected.known, true, __ATOMIC_RELEASE);
}

static bool read_file(int fd, struct stat *ret)
{
    return syscall(SYS_newfstatat, fd, "", ret, AT_EMPTY_PATH) == 0;
}

static bool is_file(const struct stat *found, dev_t device, ino_t inode)
{
    return found->st_dev == device && found->st_ino == inode;
}

/*
 * Whether the program has redirected standard error. Called if descriptor 2 refers to another file
 * than at the start. A terminal or another character device, a pipe, a file opened with O_APPEND,
 * and the file that is also standard output count as redirections. Any other file or socket may
 * contain data of the program.
 */
static bool is_redirection(const struct stat *found)
{
    struct stat out;

    if (S_ISCHR(found->st_mode) || S_ISFIFO(found->st_mode))
        return true;
    return (S_ISREG(found->st_mode) && syscall(SYS_fcntl, STDERR_FILENO, F_GETFL) & O_APPEND) ||
           (read_file(STDOUT_FILENO, &out) && is_file(found, out.st_dev, out.st_ino));
}

/*
 * Whether descriptor 2 is standard error. A daemon may close descriptor 2, and a file that it opens
 * later may get this number. If descriptor 2 has FD_CLOEXEC, it is such a file, because inherited
 * descriptors and those made by dup2 lack the flag.
 */
static bool is_standard_error(void)
{
    const long flags = syscall(SYS_fcntl, STDERR_FILENO, F_GETFD);
    struct stat found;

    if (flags < 0 || flags & FD_CLOEXEC)
        return false;
    return !__atomic_load_n(&expected.known, __ATOMIC_ACQUIRE) ||
           !read_file(STDERR_FILENO, &found) || is_file(&found, expected.device, expected.inode) ||
           is_redirection(&found);
}

/* area: "", or the name of an area and ": ". */
GF_PRINTF(2, 0) static void write_line(const char *area, const char *format, va_list args)
{
    gf_keep_errno();
    char line[1024];
    const size_t start = (size_t)gf_fmt(line, sizeof(line), "gpufeed: %s%s", process_name, area);
    int length = gf_vfmt(line + start, sizeof(line) - start - 1, format, args);
    size_t end = start + gf_min((size_t)length, sizeof(line) - start - 2);
    line[end++] = '\n';
    /* If the write fails, only the line is lost; the program continues. */
    if (is_standard_error())
        gf_safe_write(STDERR_FILENO, line, end);
}

void gf_log(enum gf_log_level level, const char *format, ...)
{
    va_list args;

    if (!gf_log_wants(level))
        return;
    va_start(args, format);
    write_line("", format, args);
    va_end(args);
}

void gf_log_explain(enum gf_log_area area, const char *format, ...)
{
    static const char *const prefixes[] = {
#define GF_LOG_PREFIX(token, word) #word ": ",
        GF_LOG_AREAS(GF_LOG_PREFIX)
#undef GF_LOG_PREFIX
    };
    va_list args;

    if (!gf_log_wants_area(area))
        return;
    va_start(args, format);
    write_line(prefixes[area], format, args);
    va_end(args);
}
