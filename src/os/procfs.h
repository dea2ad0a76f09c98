/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of /proc, /sys and cgroups. Makes only system calls, for callers inside malloc, in a
 * hook or in a forked child: libc's open and read are cancellation points, and other preloads
 * replace them with functions that allocate. Nothing here allocates or takes a lock. Files are
 * opened only where the program cannot see the descriptors (os/own_table.h). errno may change. Any
 * thread.
 *
 * root is the folder used as "/": "" or NULL for this system; tests and recorded machines use
 * another folder.
 */
#ifndef GF_OS_PROCFS_H
#define GF_OS_PROCFS_H

#include "base/cpus.h"

#include <fcntl.h>
#include <sys/types.h>

#define GF_PROCFS_PATH_MAX 2048

/*
 * Returns a descriptor for reading, or -errno. folder is a descriptor, or AT_FDCWD. -EPERM once the
 * process is sealed (os/permit.h). -EBADF if the thread's descriptor table is the program's: call it
 * through gf_own_table_run.
 */
int gf_procfs_open(int folder, const char *path);
void gf_procfs_close(int fd);
/* Reads the next bytes. Returns their number, 0 at the end, or -errno. */
ssize_t gf_procfs_chunk(int fd, void *buf, size_t size);

/*
 * Reads root + "/" + path into buf, terminated, without trailing white space. Text that does not
 * fit is truncated. Returns the length or -errno. Several files are cheaper to read within one
 * gf_own_table_run.
 */
int gf_procfs_read(char *buf, size_t size, const char *root, const char *format, ...)
    GF_PRINTF(4, 5);
/* The same for a path below an open folder. */
int gf_procfs_read_at(int folder, char *buf, size_t size, const char *path);

/*
 * Reads a file that holds one list of CPUs or of nodes. 0 or -errno; *ret is unchanged on failure.
 */
int gf_procfs_cpus(struct gf_cpus *ret, const char *root, const char *path);
int gf_procfs_nodes(struct gf_nodes *ret, const char *root, const char *path);

/* The text after "key:" at the start of a line, leading white space skipped; NULL if absent. */
const char *gf_procfs_field(const char *text, const char *key);
/* The number after a line's first word, as in memory.stat; 0 if no line begins with that word. */
uint64_t gf_procfs_value(const char *text, const char *key);
/* The value of the decimal digits at p; 0 for other text. */
uint64_t gf_procfs_number(const char *p);

/* Reads line by line through a small buffer. */
struct gf_procfs_lines {
    char *buf; /* the caller's; a longer line is returned in pieces */
    size_t size;
    size_t at, held;
    bool continued; /* the last piece returned continues the piece before it */
    bool cut;       /* the next piece continues it */
    int fd;
    int64_t offset; /* of the next read */
    int error;      /* after the last line: -errno of a failed read, or 0 */
};

/*
 * Opens as gf_procfs_open does. False if the file cannot be opened; then nothing needs to be
 * closed, and lines->fd is -errno.
 */
bool gf_procfs_lines_open(struct gf_procfs_lines *lines, const char *path);
/* Reads an open file from its beginning. Nothing needs to be closed. */
void gf_procfs_lines_begin(struct gf_procfs_lines *lines, int fd);
/* The next line without its newline; NULL after the last one. */
char *gf_procfs_lines_next(struct gf_procfs_lines *lines);
void gf_procfs_lines_close(struct gf_procfs_lines *lines);

#endif
