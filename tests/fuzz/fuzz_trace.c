/* SPDX-License-Identifier: Apache-2.0 */
/* `gpufeed report --perfetto --with` on files that claim to be a trace of PyTorch. */
#include "fuzz.h"

#include "tools/report/outputs.h"
#include "tools/answer/parts.h"

#include <sys/mman.h>
#include <unistd.h>

static void check_merged(const uint8_t *trace, size_t trace_size)
{
    const struct gf_job job = {0};
    const struct gf_read_counts counts = {0};
    struct gf_answer answer;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    CHECK(out);
    gf_answer_make(&job, &counts, &answer);
    gf_perfetto_write(out, &answer);
    CHECK(fclose(out) == 0);
    CHECK(size == trace_size && memcmp(text, trace, size) == 0);
    gf_answer_free(&answer);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("trace", MFD_CLOEXEC);
    char path[64];

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (gf_torch_trace_open(path) == 0) {
        check_merged(data, size);
        gf_torch_trace_close();
    }
    close(fd);
    return 0;
}
