/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that appends each error of the simulated driver to the file TELL_ERRORS, like a tool
 * that monitors the driver. CUDA_ERROR_NOT_READY is not an error. Built with STANDS_IN, it is a
 * preload that replaces the driver, like Nsight Compute's: its dlopen returns this object for
 * libcuda.
 */
#include "front.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#ifdef STANDS_IN
static void *open_original(const char *file, int mode)
{
    static __typeof__(dlopen) *original;
    if (!original)
        original = (__typeof__(dlopen) *)dlsym(RTLD_NEXT, "dlopen");
    return original(file, mode);
}

void *dlopen(const char *file, int mode)
{
    Dl_info own;
    const bool is_driver = file && strstr(file, "libcuda.so") && dladdr((void *)dlopen, &own);
    return open_original(is_driver ? own.dli_fname : file, mode);
}
#endif

static void tell(int number, int result)
{
    char line[128];
    const char *path = getenv("TELL_ERRORS");
    const int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    const int length = snprintf(line, sizeof(line), "%s %d\n", names[number], result);
    if (write(fd, line, (size_t)length) != length)
        abort();
    close(fd);
}

static void front_before(int number)
{
    (void)number;
}

static void front_after(int number, int result)
{
    if (result && result != CUDA_ERROR_NOT_READY)
        tell(number, result);
}
