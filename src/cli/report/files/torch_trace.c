/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/torch_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_file(const char *path, struct gf_span *ret)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int error = fd < 0 ? -errno : 0;

    if (!error && fstat(fd, &status))
        error = -errno;
    if (!error && (!S_ISREG(status.st_mode) || !status.st_size))
        error = -EINVAL;
    if (!error) {
        void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        *ret = (struct gf_span){at, (size_t)status.st_size};
        error = at == MAP_FAILED ? -errno : 0;
    }
    if (fd >= 0)
        close(fd);
    return error;
}

static bool read_frame(struct gf_torch_trace *trace)
{
    struct gf_scan scan = gf_scan_begin(trace->text, '{');
    struct gf_span key, value;

    while (gf_scan_member(&scan, &key, &value)) {
        if (gf_span_is(key, "traceEvents") && *value.at == '[')
            trace->events = value;
        else if (gf_span_is(key, "baseTimeNanoseconds"))
            trace->base_ns = gf_span_int(value);
    }
    return gf_scan_ended(&scan) && trace->events.size;
}

int gf_torch_trace_open(const char *path, struct gf_torch_trace *ret)
{
    *ret = (struct gf_torch_trace){0};
    const int error = map_file(path, &ret->text);
    if (error) {
        ret->text = (struct gf_span){0};
        return error;
    }
    const bool compressed = ret->text.size > 2 && memcmp(ret->text.at, "\x1f\x8b", 2) == 0;
    if (!compressed && read_frame(ret))
        return 0;
    const bool is_list = *ret->text.at == '[';
    gf_torch_trace_close(ret);
    return compressed ? -EPROTONOSUPPORT : is_list ? -ENOTSUP : -EINVAL;
}

void gf_torch_trace_close(struct gf_torch_trace *trace)
{
    if (trace->text.size)
        munmap((void *)(uintptr_t)trace->text.at, trace->text.size);
    *trace = (struct gf_torch_trace){0};
}
