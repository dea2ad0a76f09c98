/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/messages.h"

#include "base/log.h"
#include "config/startup_env.h"
#include "os/launch.h"

#include <unistd.h>

void gf_messages_start(void)
{
    const struct gf_startup_env *startup = gf_startup_env();
    struct gf_rank rank;
    char name[32];

    gf_launch_rank(startup->envp, &rank);
    gf_launch_name(&rank, name, sizeof(name));
    if (*name)
        gf_log_set_process(name);
    gf_log_expect_stderr(startup->stderr_device, startup->stderr_inode);
    gf_log_set_level(startup->stderr_closed ? GF_LOG_SILENT
                                            : GF_LOG_WARN + gf_startup_env_options()->verbose);
}
