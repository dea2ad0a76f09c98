/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/callouts/late_tables.h"

#include "base/base.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The linker defines these symbols; late_tables.ld aligns them to pages. */
extern char __start_gf_late_bss[] __attribute__((visibility("hidden")));
extern char __stop_gf_late_bss[] __attribute__((visibility("hidden")));

bool gf_late_tables_open(void)
{
    const size_t size = (size_t)(__stop_gf_late_bss - __start_gf_late_bss);
    const int error = errno;
    const long result = syscall(SYS_mprotect, __start_gf_late_bss, size, PROT_READ | PROT_WRITE);

    errno = error;
    return result == 0;
}
