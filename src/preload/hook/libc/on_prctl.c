/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of prctl, which passes the call through. By prctl, a program sets no_new_privs, and then
 * installs a seccomp filter. Before either call, the library stops making system calls for which
 * the filter may kill the process. PR_SET_TSC makes rdtsc fail, and with it the vDSO's clocks.
 */
#include "os/permit.h"
#include "os/own_table.h"
#include "preload/hook/originals/originals.h"

#include <stdarg.h>
#include <sys/prctl.h>

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
        gf_thread_is_own()) /* the filter of a child of vfork does not apply to its parent */
        gf_permit_seal();
    return gf_originals()->prctl(option, arg[0], arg[1], arg[2], arg[3]);
}
