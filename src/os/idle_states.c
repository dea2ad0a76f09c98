/* SPDX-License-Identifier: Apache-2.0 */
#include "os/idle_states.h"

#include "os/permit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int gf_idle_states_limit(int longest_us)
{
    const int32_t longest = longest_us;

    if (gf_permit_sealed())
        return -EPERM;
    const long device = syscall(SYS_openat, AT_FDCWD, GF_IDLE_STATES_DEVICE, O_WRONLY | O_CLOEXEC);
    if (device < 0 || syscall(SYS_write, device, &longest, sizeof(longest)) != sizeof(longest))
        return -errno;
    return 0;
}
