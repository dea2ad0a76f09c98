/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/run_delay.h"

#include "os/procfs.h"

#include <string.h>

uint64_t gf_run_delay_read(pid_t tid)
{
    char text[96];

    if (gf_procfs_read(text, sizeof(text), "", "proc/self/task/%d/schedstat", tid) < 0)
        return 0;
    const char *second = strchr(text, ' ');
    return second ? gf_procfs_number(second + 1) : 0;
}
