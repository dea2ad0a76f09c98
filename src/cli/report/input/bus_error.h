/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps this process alive when another process truncates a file that is mapped here. */
#ifndef GF_CLI_REPORT_INPUT_BUS_ERROR_H
#define GF_CLI_REPORT_INPUT_BUS_ERROR_H

/*
 * From now on a mapped page that its file no longer has reads as zeros. Without this, SIGBUS would
 * kill the process.
 */
void gf_bus_error_survive(void);

#endif
