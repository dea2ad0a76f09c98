/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topo/recording.h"

#include "cli/topo/cpufreq.h"
#include "cli/topo/host_devices.h"
#include "cli/topo/host_files.h"
#include "cli/topo/visible_gpus.h"
#include "host/machine_load.h"

int gf_recording_write(const char *folder)
{
    /* gf_record_machine creates the folder, so it is called first. */
    static int (*const parts[])(const char *folder) = {
        gf_record_machine,      gf_visible_gpus_record, gf_host_files_record,
        gf_host_devices_record, gf_cpufreq_record,
    };
    int error = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(parts) && !error; i++)
        error = parts[i](folder);
    return error;
}
