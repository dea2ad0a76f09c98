/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of machines, which --machine and GPUFEED_MACHINE read instead of this system's files. */
#ifndef GF_CLI_TOPO_RECORDING_H
#define GF_CLI_TOPO_RECORDING_H

/* Records this machine in the folder, which is created if it is missing. Returns 0 or -errno. */
int gf_recording_write(const char *folder);

#endif
