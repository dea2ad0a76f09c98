/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/live.h"

#include "base/clock.h"
#include "abi/formats.h"
#include "base/log.h"
#include "engine/process/output.h"
#include "engine/process/process_state.h"
#include "os/own_table.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_TEXT ((size_t)4096)
/* Size of each of the two texts; only the pages that are written take memory. */
#define TEXT_BYTES ((size_t)1 << 20)
#define FILE_BYTES (FIRST_TEXT + 2 * TEXT_BYTES)
#define PERIOD_S 1
#define LOCK_WAIT_MS 200
#define STACK_BYTES ((size_t)1 << 20) /* `ulimit -s` may be smaller */

/*
 * Creates and maps the file in memory. This thread first gets its own descriptor table, so that the
 * program's descriptor numbers do not change. Returns NULL if the kernel refuses a call.
 */
static struct gf_live_header *map_file(void)
{
    if (!gf_own_table_leave())
        return NULL;
    const int fd = (int)syscall(SYS_memfd_create, GF_LIVE_NAME, 1u /* MFD_CLOEXEC */);
    if (fd < 0 || ftruncate(fd, (off_t)FILE_BYTES))
        return NULL;
    void *const file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return file == MAP_FAILED ? NULL : file;
}

/*
 * Formats the report into the half of the file that does not contain the current text, then makes
 * it the current text. If the report does not fit, or if another thread holds the report lock, the
 * previous text stays current.
 */
static void write_report(struct gf_live_header *file)
{
    const uint64_t at = FIRST_TEXT + file->sequence / 2 % 2 * TEXT_BYTES;
    const size_t length = gf_output_snapshot((char *)file + at, TEXT_BYTES, LOCK_WAIT_MS);

    if (!length || length >= TEXT_BYTES)
        return;
    __atomic_store_n(&file->sequence, file->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&file->text_at, at, __ATOMIC_RELAXED);
    __atomic_store_n(&file->text_bytes, length, __ATOMIC_RELAXED);
    __atomic_store_n(&file->written_ns, gf_now_ns(), __ATOMIC_RELAXED);
    __atomic_store_n(&file->sequence, file->sequence + 1, __ATOMIC_RELEASE);
}

static void *show_report(void *unused)
{
    const struct timespec period = {.tv_sec = PERIOD_S};

    prctl(PR_SET_NAME, "gpufeed-live");
    struct gf_live_header *file = map_file();
    if (!file)
        return unused;
    memcpy(file->magic, GF_LIVE_MAGIC, sizeof(file->magic));
    file->version = GF_LIVE_VERSION;
    file->pid = gf_process.pid;
    do /* ends if a seccomp filter refuses the sleep */
        write_report(file);
    while (!gf_process_dead() && (nanosleep(&period, NULL) == 0 || errno == EINTR));
    return unused;
}

void gf_live_start(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    if (gf_process.preload->options->live != gf_live_on || pthread_attr_init(&attr))
        return;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    const int error = pthread_create(&thread, &attr, show_report, NULL);
    pthread_attr_destroy(&attr);
    if (error)
        gf_warn(
            "GPUFEED_LIVE: cannot start a thread: %s; `gpufeed top` shows only the report's file",
            strerrordesc_np(error));
}
