/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/log_file.h"

#include "abi/formats.h"
#include "base/atomic.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/path.h"
#include "os/cgroup.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "preload/heap/slowpath.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/utsname.h>

static char path[PATH_MAX];
static const char *pattern;
static int process_rank;
/* Id of the process to which `path` belongs; 0 while a thread changes `path`. */
static _Atomic pid_t path_of;
static _Atomic bool is_open;

void gf_log_file_follow(pid_t pid)
{
    gf_store_relaxed(&path_of, 0);
    const int error = gf_path_expand(pattern, pid, process_rank, path, sizeof(path));
    if (error)
        gf_warn("GPUFEED_LOG=%.80s...: the path is too long; no events are logged", pattern);
    gf_store_release(&is_open, error == 0);
    gf_store_release(&path_of, pid);
}

void gf_log_file_open(const char *path_pattern, int own_rank, pid_t pid)
{
    pattern = path_pattern;
    process_rank = own_rank;
    gf_log_file_follow(pid);
}

bool gf_log_file_is_open(void)
{
    return gf_load_acquire(&is_open);
}

const char *gf_log_file_path(void)
{
    return path;
}

struct append {
    pid_t pid;
    bool on_new_line;
    const char *text;
    size_t length;
    ssize_t written;
};

static ssize_t append_to(const char *file, const struct append *append)
{
    return gf_output_append(file, "\n", append->on_new_line, append->text, append->length);
}

/*
 * Writes a child's line in the parent. Not inlined, because the path buffer takes much space on the
 * stack.
 */
static GF_COLD ssize_t append_for_child(const struct append *append)
{
    char other[PATH_MAX];
    const int error = gf_path_expand(pattern, append->pid, process_rank, other, sizeof(other));
    return error ? error : append_to(other, append);
}

static void open_and_append(void *closure)
{
    struct append *append = closure;

    append->written = append->pid == gf_load_acquire(&path_of) ? append_to(path, append)
                                                               : append_for_child(append);
}

ssize_t gf_log_file_append(pid_t pid, bool on_new_line, const char *text, size_t length)
{
    struct append append = {pid, on_new_line, text, length, -EAGAIN};

    /* Even a sealed process (os/permit.h) opens the file, because the user requested the log. */
    if (!gf_own_table_run(open_and_append, &append) && gf_permit_sealed())
        open_and_append(&append);
    return append.written;
}

const char *gf_log_header_program(void)
{
    static char program[512];
    char read[sizeof(program)];

    if (!*program) {
        const ssize_t length =
            syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", read, sizeof(read) - 1);
        memcpy(program, read, (size_t)gf_max(length, 0)); /* every thread stores the same bytes */
    }
    return program;
}

static void put_job(struct gf_json *json, const gf_launch_value *job)
{
    gf_json_object(json, "job");
    for (size_t i = 0; i < GF_LAUNCH_JOB_VARIABLES; i++)
        if (*job[i])
            gf_json_text(json, gf_launch_job_variables[i], job[i]);
}

void gf_log_header_put(struct gf_json *json, const gf_launch_value *job, const struct gf_rank *rank,
                       const char *version)
{
    struct utsname host;
    char container[GF_CONTAINER_ID];

    gf_json_int(json, "schema", GF_LOG_SCHEMA);
    gf_json_text(json, "version", version);
    gf_json_text(json, "program", gf_log_header_program());
    gf_json_int(json, "ppid", getppid());
    gf_json_int(json, "rank", rank->rank);
    gf_json_int(json, "local_rank", rank->local_rank);
    gf_json_text(json, "host", uname(&host) == 0 ? host.nodename : NULL);
    gf_json_text(json, "container", gf_container_id(container) ? container : NULL);
    put_job(json, job);
    gf_json_size(json, "stall_us", gf_slowpath_threshold() / 1000);
}
