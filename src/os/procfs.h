/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "base/cpus.h"

#include <fcntl.h>

/*
 * Reads files of /proc, /sys and cgroups. The functions may be called on any thread, inside malloc,
 * in a hook and in a forked child. They make only system calls, because libc's open and read are
 * cancellation points, and other preloads may replace them by functions that allocate. They
 * allocate nothing and take no lock. Files are opened in a descriptor table that the program cannot
 * see (os/own_table.h). errno may change.
 *
 * root: the folder that replaces "/", for tests and recorded machines; "" or NULL for this system. No
 * file outside of it is opened (base/input_file.h).
 */

#define GF_PROCFS_PATH_MAX 2048

/*
 * Opens a file for reading. Returns a descriptor or -errno. folder: a descriptor, or AT_FDCWD. The
 * error is -EPERM if the process is sealed (os/permit.h). It is -EBADF if the thread uses the
 * program's descriptor table, so call the function within gf_own_table_run.
 */
int gf_procfs_open(int folder, const char *path);
/* Opens the file root + path, of which the path begins with "/". */
int gf_procfs_open_in(const char *root, const char *path);
void gf_procfs_close(int fd);
/* Reads the next bytes. Returns their number, 0 at the end, or -errno. */
ssize_t gf_procfs_chunk(int fd, void *buf, size_t size);

/*
 * Reads the file root + "/" + path into buf, terminated, without trailing white space. Text that
 * does not fit is truncated. Returns the length or -errno. To read several files, make all calls
 * within one gf_own_table_run, which is cheaper.
 */
int gf_procfs_read(char *buf, size_t size, const char *root, const char *format, ...)
    GF_PRINTF(4, 5);
/* Like gf_procfs_read, but the path is relative to an open folder. */
int gf_procfs_read_at(int folder, char *buf, size_t size, const char *path);
/*
 * Returns the state of a thread of this process as a letter of proc(5): R, it runs or waits for a
 * CPU; S, it sleeps; D, the kernel keeps it waiting. 0: unknown.
 */
char gf_procfs_thread_state(pid_t tid);

/*
 * Returns the real user id of a process or thread; (uid_t)-1 if unknown. For a setuid program, it is the id of
 * the user who started it. That user may stop the program, although its folder in /proc has another owner.
 */
uid_t gf_procfs_user(pid_t pid);

/*
 * Reads a file that contains a list of CPUs or nodes. Returns 0 or -errno; on failure *ret is
 * unchanged.
 */
int gf_procfs_bits(uint64_t *ret, size_t n, const char *root, const char *path);
#define gf_procfs_set(ret, root, path) gf_procfs_bits(GF_WORDS(ret), (root), (path))

/*
 * Finds the line that begins with the key and a colon. Returns the text after the colon and white
 * space; NULL if there is no such line.
 */
const char *gf_procfs_field(const char *text, const char *key);
/* Copies this text up to the end of its line. Returns false, with *ret "", if there is no such line. */
bool gf_procfs_copy(const char *text, const char *key, char *ret, size_t size);
/* Returns the number in the line "key number", as in memory.stat; 0 if no line has the key. */
uint64_t gf_procfs_value(const char *text, const char *key);
/*
 * Finds a field of a file `stat` of a process or thread, where the first field has the number 1 and
 * the second one, the name, may contain blanks and parentheses. Returns the text after the blank
 * before a field from the third on; NULL if it is missing.
 */
const char *gf_procfs_stat(const char *text, unsigned number);
/* Returns the value of the decimal digits at p; 0 if the first character is not a digit. */
uint64_t gf_procfs_number(const char *p);

/* Reads a file line by line through a small buffer. */
struct gf_procfs_lines {
    char *buf; /* the caller's buffer; a longer line is returned in pieces */
    size_t size;
    size_t at, held;
    bool continued; /* true if the last returned piece continues the piece before it */
    bool cut;       /* true if the next piece continues the last returned piece */
    int fd;
    int64_t offset; /* offset of the next read */
    int64_t left;   /* for so many bytes reads may still ask */
    int error;      /* after the last line: -errno of a failed read, or 0 */
};

/*
 * Opens the file by gf_procfs_open. On failure, sets lines->fd to -errno and returns false; then
 * gf_procfs_lines_close must not be called.
 */
bool gf_procfs_lines_open(struct gf_procfs_lines *lines, const char *path);
/* Opens it by gf_procfs_open_in. */
bool gf_procfs_lines_open_in(struct gf_procfs_lines *lines, const char *root, const char *path);
/* Reads an open file from its beginning. The caller closes the file. */
void gf_procfs_lines_begin(struct gf_procfs_lines *lines, int fd);
/* Returns the next line without its newline; NULL after the last line. */
char *gf_procfs_lines_next(struct gf_procfs_lines *lines);
void gf_procfs_lines_close(struct gf_procfs_lines *lines);

/*
 * Reads the kernel's settings of transparent huge pages from files. The functions may be called on
 * any thread.
 */

struct gf_thp {
    bool on;          /* true if shared memory gets huge pages, always or on request */
    const char *file; /* the file that decides, relative to root; NULL if absent */
    char line[128];   /* content of the file: "always within_size [advise] never deny force" */
};

/* Reads the setting for shared memory and 2 MiB pages. root: see os/procfs.h. */
void gf_thp_read_shared(const char *root, struct gf_thp *ret);

/* The files that may decide, relative to root. */
extern const char *const gf_thp_shared_files[2];

/* Whether the word is the active setting, which is the word in brackets. */
bool gf_thp_chosen(const char *line, const char *word);
