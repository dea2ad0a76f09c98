/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps this process alive when another process truncates a file that is mapped here. */
#ifndef GF_CLI_REPORT_INPUT_BUS_ERROR_H
#define GF_CLI_REPORT_INPUT_BUS_ERROR_H

/*
 * Installs a handler of SIGBUS, which maps a zero page at an address where a truncated file no
 * longer has a page.
 */
void gf_bus_error_survive(void);

#endif
