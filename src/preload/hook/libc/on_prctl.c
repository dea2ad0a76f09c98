/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of prctl, which passes the call through. By prctl, a program sets no_new_privs, and then
 * installs a seccomp filter. Before either call, the library stops making system calls for which
 * the filter may kill the process. PR_SET_TSC makes rdtsc fail, and with it the vDSO's clocks.
 */
#include "os/permit.h"
#include "preload/hook/originals/originals.h"

#include <stdarg.h>
#include <sys/prctl.h>
#include <time.h>

/*
 * Returns false in a child of vfork. Such a child uses its parent's memory, but its filter does not
 * apply to the parent. In such a child, libc's thread descriptor still contains the parent's thread
 * id, which differs from gettid(). The thread's clock id contains the descriptor's id.
 */
static bool is_in_own_memory(void)
{
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 && ~(clock >> 3) == gettid();
}

int gf_on_prctl(int option, ...)
{
    unsigned long arg[4];
    va_list args;

    va_start(args, option);
    for (unsigned i = 0; i < GF_ARRAY_LEN(arg); i++)
        arg[i] = va_arg(args, unsigned long);
    va_end(args);
    const bool ends_tsc = option == PR_SET_TSC && arg[0] == PR_TSC_SIGSEGV;
    if ((option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP || ends_tsc) &&
        is_in_own_memory())
        gf_permit_seal();
    return gf_originals()->prctl(option, arg[0], arg[1], arg[2], arg[3]);
}
