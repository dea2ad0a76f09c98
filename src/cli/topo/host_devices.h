/* SPDX-License-Identifier: Apache-2.0 */
/* Files of PCI devices and idle states that `gpufeed doctor` checks and a recording contains. */
#ifndef GF_CLI_TOPO_HOST_DEVICES_H
#define GF_CLI_TOPO_HOST_DEVICES_H

/* Copies the files into the folder. 0 or -errno; a file that is missing here is skipped. */
int gf_host_devices_record(const char *folder);

#endif
