/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded machines: the files that --machine and GPUFEED_MACHINE read instead of this system's. */
#ifndef GF_CLI_TOPO_RECORDING_H
#define GF_CLI_TOPO_RECORDING_H

/* Records this machine into the folder. Creates the folder if it is missing. 0 or -errno. */
int gf_recording_write(const char *folder);

#endif
