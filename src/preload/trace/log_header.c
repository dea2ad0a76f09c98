/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/log_header.h"

#include "preload/heap/timing/slowpath.h"
#include "os/cgroup.h"
#include "abi/formats.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

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

static void put_job(struct gf_json *json, char *const *envp)
{
    const char *const *names = gf_launch_job_variables;

    gf_json_begin(json, "job", '{');
    for (size_t i = 0; names[i]; i++) {
        const char *value = gf_launch_variable(envp, names[i]);
        if (value && strlen(value) < 256)
            gf_json_text(json, names[i], value);
    }
    gf_json_end(json, '}');
}

void gf_log_header_put(struct gf_json *json, char *const *envp, const struct gf_rank *rank,
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
    put_job(json, envp);
    gf_json_size(json, "stall_us", gf_slowpath_threshold() / 1000);
}
