/* SPDX-License-Identifier: Apache-2.0 */
#include "os/procfs.h"

#include "base/fmt.h"
#include "base/input_file.h"
#include "os/own_table.h"
#include "os/permit.h"

#include <stdarg.h>

static int open_file(int folder, const char *root, const char *path)
{
    if (gf_permit_sealed())
        return -EPERM;
    if (!gf_own_table_is_own())
        return -EBADF;
    if (root && *root)
        return gf_input_open_in(root, path);
    const long fd = syscall(SYS_openat, folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : (int)fd;
}

int gf_procfs_open(int folder, const char *path)
{
    return open_file(folder, NULL, path);
}

int gf_procfs_open_in(const char *root, const char *path)
{
    return open_file(AT_FDCWD, root, path);
}

void gf_procfs_close(int fd)
{
    syscall(SYS_close, fd);
}

ssize_t gf_procfs_chunk(int fd, void *buf, size_t size)
{
    ssize_t got;

    while ((got = syscall(SYS_read, fd, buf, size)) < 0 && errno == EINTR)
        ;
    return got < 0 ? -errno : got;
}

/*
 * Reads the file, truncated to size, and removes trailing white space. A server of a FUSE file system may
 * answer each read with one byte.
 */
static int read_whole(int fd, char *buf, size_t size)
{
    size_t at = 0, left = 16 + size / 256;
    ssize_t got = 0;

    while (at + 1 < size && left-- && (got = gf_procfs_chunk(fd, buf + at, size - 1 - at)) > 0)
        at += (size_t)got;
    if (got < 0)
        return (int)got;
    while (at && (buf[at - 1] == '\n' || buf[at - 1] == ' ' || buf[at - 1] == '\t'))
        at--;
    buf[at] = '\0';
    return (int)at;
}

struct whole {
    int folder;
    const char *root, *path;
    char *buf;
    size_t size;
    int length;
};

static void open_and_read(void *closure)
{
    struct whole *whole = closure;
    const int fd = open_file(whole->folder, whole->root, whole->path);

    whole->length = fd;
    if (fd < 0)
        return;
    whole->length = read_whole(fd, whole->buf, whole->size);
    gf_procfs_close(fd);
}

static int open_and_read_apart(struct whole *whole)
{
    whole->buf[0] = '\0';
    whole->length = gf_permit_sealed() ? -EPERM : -EAGAIN;
    gf_own_table_run(open_and_read, whole);
    return whole->length;
}

int gf_procfs_read_at(int folder, char *buf, size_t size, const char *path)
{
    return open_and_read_apart(&(struct whole){folder, NULL, path, buf, size, 0});
}

int gf_procfs_read(char *buf, size_t size, const char *root, const char *format, ...)
{
    char path[GF_PROCFS_PATH_MAX];
    va_list args;

    buf[0] = '\0';
    path[0] = '/';
    va_start(args, format);
    const int length = gf_vfmt(path + 1, sizeof(path) - 1, format, args);
    va_end(args);
    if ((size_t)length >= sizeof(path) - 1)
        return -ENAMETOOLONG;
    return open_and_read_apart(&(struct whole){AT_FDCWD, root, path, buf, size, 0});
}

char gf_procfs_thread_state(pid_t tid)
{
    char text[64]; /* the id and the name, which has at most 15 characters, come first */

    if (gf_procfs_read(text, sizeof(text), "", "proc/self/task/%d/stat", tid) < 0)
        return 0;
    const char *state = gf_procfs_stat(text, 3);
    return (char)(state ? *state : 0);
}

uid_t gf_procfs_user(pid_t pid)
{
    char text[1024];

    gf_procfs_read(text, sizeof(text), "", "proc/%d/status", pid);
    const char *user = gf_procfs_field(text, "Uid");
    return user ? (uid_t)gf_procfs_number(user) : (uid_t)-1;
}

int gf_procfs_bits(uint64_t *ret, size_t n, const char *root, const char *path)
{
    char text[4096];
    const int length = gf_procfs_read(text, sizeof(text), root, "%s", path);
    return length < 0 ? length : gf_bits_parse(text, ret, n);
}

/*
 * Finds the line that starts with the key, followed by the character `end`. Returns the text after
 * this character.
 */
static const char *find_key(const char *text, const char *key, char end)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == end)
            return line + length + 1 + strspn(line + length + 1, " \t");
    }
    return NULL;
}

const char *gf_procfs_field(const char *text, const char *key)
{
    return find_key(text, key, ':');
}

bool gf_procfs_copy(const char *text, const char *key, char *ret, size_t size)
{
    const char *field = gf_procfs_field(text, key);

    gf_fmt(ret, size, "%.*s", field ? (int)strcspn(field, "\n") : 0, field ? field : "");
    return field;
}

uint64_t gf_procfs_value(const char *text, const char *key)
{
    const char *value = find_key(text, key, ' ');
    return value ? gf_procfs_number(value) : 0;
}

const char *gf_procfs_stat(const char *text, unsigned number)
{
    const char *at = strrchr(text, ')');
    for (unsigned field = 2; at && field < number; field++)
        at = strchr(at + 1, ' ');
    return at ? at + 1 : NULL;
}

uint64_t gf_procfs_number(const char *p)
{
    uint64_t value = 0;
    while (*p >= '0' && *p <= '9')
        value = value * 10 + (uint64_t)(*p++ - '0');
    return value;
}

/* Of a file of a recording, which may be a sparse one of terabytes, or have no end. */
#define RECORDED_MOST (64 << 20)

bool gf_procfs_lines_open(struct gf_procfs_lines *lines, const char *path)
{
    return gf_procfs_lines_open_in(lines, NULL, path);
}

bool gf_procfs_lines_open_in(struct gf_procfs_lines *lines, const char *root, const char *path)
{
    gf_procfs_lines_begin(lines, gf_procfs_open_in(root, path));
    if (root && *root)
        lines->left = RECORDED_MOST;
    return lines->fd >= 0;
}

void gf_procfs_lines_begin(struct gf_procfs_lines *lines, int fd)
{
    lines->at = lines->held = 0;
    lines->continued = lines->cut = false;
    lines->error = 0;
    lines->offset = 0;
    lines->left = INT64_MAX;
    lines->fd = fd;
}

/*
 * Moves the unread bytes to the front of the buffer, and appends more bytes of the file. Returns
 * false at the end of the file.
 */
static bool fill_lines(struct gf_procfs_lines *lines)
{
    lines->held -= lines->at;
    memmove(lines->buf, lines->buf + lines->at, lines->held);
    lines->at = 0;
    const size_t space = lines->size - 1 - lines->held;
    const ssize_t got =
        space && lines->left > 0
            ? syscall(SYS_pread64, lines->fd, lines->buf + lines->held, space, lines->offset)
            : 0;
    lines->left -= (int64_t)space;
    if (got < 0)
        lines->error = -errno;
    if (got <= 0)
        return false;
    lines->held += (size_t)got;
    lines->offset += got;
    return true;
}

char *gf_procfs_lines_next(struct gf_procfs_lines *lines)
{
    lines->continued = lines->cut;
    lines->cut = false;
    for (;;) {
        char *line = lines->buf + lines->at;
        char *end = memchr(line, '\n', lines->held - lines->at);
        if (end) {
            *end = '\0';
            lines->at = (size_t)(end + 1 - lines->buf);
            return line;
        }
        if (fill_lines(lines))
            continue;
        if (!lines->held)
            return NULL;
        lines->cut = lines->held == lines->size - 1;
        lines->buf[lines->held] = '\0';
        lines->at = lines->held = 0;
        return lines->buf;
    }
}

void gf_procfs_lines_close(struct gf_procfs_lines *lines)
{
    gf_procfs_close(lines->fd);
}

bool gf_thp_chosen(const char *line, const char *word)
{
    const char *at = strchr(line, '[');
    const size_t length = strlen(word);
    return at && strncmp(at + 1, word, length) == 0 && at[1 + length] == ']';
}

#define FOLDER "sys/kernel/mm/transparent_hugepage/"

const char *const gf_thp_shared_files[2] = {FOLDER "hugepages-2048kB/shmem_enabled",
                                            FOLDER "shmem_enabled"};

/*
 * Linux 6.10 and later have a file for each page size, and one general file. The default in the
 * file of a size is "inherit", which means that the general file applies. "deny" in the general
 * file applies to all sizes.
 */
void gf_thp_read_shared(const char *root, struct gf_thp *ret)
{
    static const char *const words[] = {"always", "within_size", "advise", "force"};
    char of_size[sizeof(ret->line)], general[sizeof(ret->line)];
    const bool has_size =
        gf_procfs_read(of_size, sizeof(of_size), root, "%s", gf_thp_shared_files[0]) > 0;
    const bool has_general =
        gf_procfs_read(general, sizeof(general), root, "%s", gf_thp_shared_files[1]) > 0;
    const bool denied = has_general && gf_thp_chosen(general, "deny");
    const bool by_size = has_size && !denied && !gf_thp_chosen(of_size, "inherit");

    *ret = (struct gf_thp){0};
    if (!by_size && !has_general)
        return;
    ret->file = gf_thp_shared_files[by_size ? 0 : 1];
    memcpy(ret->line, by_size ? of_size : general, sizeof(ret->line));
    for (size_t i = 0; i < GF_ARRAY_LEN(words); i++)
        ret->on = ret->on || gf_thp_chosen(ret->line, words[i]);
}
