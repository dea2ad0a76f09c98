/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of /proc, /sys and cgroups, for callers inside malloc, in a hook or in a forked
 * child. Makes only system calls, because libc's open and read are cancellation points, and other
 * preloads may replace them by functions that allocate. Allocates nothing and takes no lock. Files
 * are opened in a descriptor table that the program cannot see (os/own_table.h). errno may change.
 * Any thread.
 *
 * root: the folder that replaces "/", for tests and recorded machines; "" or NULL for this system.
 */
#ifndef GF_OS_PROCFS_H
#define GF_OS_PROCFS_H

#include "base/cpus.h"

#include <fcntl.h>
#include <sys/types.h>

#define GF_PROCFS_PATH_MAX 2048

/*
 * Returns a descriptor for reading, or -errno. folder: a descriptor, or AT_FDCWD. -EPERM once the
 * process is sealed (os/permit.h). -EBADF if the thread uses the program's descriptor table; call
 * the function within gf_own_table_run.
 */
int gf_procfs_open(int folder, const char *path);
void gf_procfs_close(int fd);
/* Reads the next bytes. Returns their number, 0 at the end, or -errno. */
ssize_t gf_procfs_chunk(int fd, void *buf, size_t size);

/*
 * Reads root + "/" + path into buf, terminated, without trailing white space. Text that does not
 * fit is truncated. Returns the length or -errno. To read several files, one gf_own_table_run
 * around all calls is cheaper.
 */
int gf_procfs_read(char *buf, size_t size, const char *root, const char *format, ...)
    GF_PRINTF(4, 5);
/* The same for a path below an open folder. */
int gf_procfs_read_at(int folder, char *buf, size_t size, const char *path);

/*
 * Reads a file that contains a list of CPUs or nodes. Returns 0 or -errno; on failure *ret is
 * unchanged.
 */
int gf_procfs_cpus(struct gf_cpus *ret, const char *root, const char *path);
int gf_procfs_nodes(struct gf_nodes *ret, const char *root, const char *path);

/* The text after a line's initial "key:" and white space; NULL if no line has the key. */
const char *gf_procfs_field(const char *text, const char *key);
/* The number in the line "key number", as in memory.stat; 0 if no line has the key. */
uint64_t gf_procfs_value(const char *text, const char *key);
/* The value of the decimal digits at p; 0 if p points to other text. */
uint64_t gf_procfs_number(const char *p);

/* Reads line by line through a small buffer. */
struct gf_procfs_lines {
    char *buf; /* the caller's buffer; a longer line is returned in pieces */
    size_t size;
    size_t at, held;
    bool continued; /* the last returned piece continues the one before */
    bool cut;       /* the next piece continues the last returned one */
    int fd;
    int64_t offset; /* offset of the next read */
    int error;      /* after the last line: -errno of a failed read, or 0 */
};

/*
 * Opens the file by gf_procfs_open. On failure returns false, with -errno in lines->fd; then do not
 * close it.
 */
bool gf_procfs_lines_open(struct gf_procfs_lines *lines, const char *path);
/* Reads an open file from its beginning. The caller closes the file. */
void gf_procfs_lines_begin(struct gf_procfs_lines *lines, int fd);
/* The next line without its newline; NULL after the last one. */
char *gf_procfs_lines_next(struct gf_procfs_lines *lines);
void gf_procfs_lines_close(struct gf_procfs_lines *lines);

#endif
