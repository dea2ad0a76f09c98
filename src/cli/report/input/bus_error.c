/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/bus_error.h"

#include "base/base.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t page_size;

/*
 * If no zero page can be mapped, the default action is restored: the instruction faults again, and
 * the signal kills the process.
 */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    void *const page = (void *)((uintptr_t)info->si_addr & ~(page_size - 1));
    if (info->si_code != BUS_ADRERR ||
        mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            MAP_FAILED)
        signal(number, SIG_DFL);
}

void gf_bus_error_survive(void)
{
    const struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, &action, NULL);
}
