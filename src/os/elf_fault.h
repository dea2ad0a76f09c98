/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether the loader could load a shared library. The loader maps a truncated file without an
 * error, and its first access beyond the file's end raises SIGBUS, which ends the program.
 */
#pragma once

/*
 * Returns NULL, or why the file cannot be loaded, as a constant text for messages. Only reads the
 * headers, by system calls, so the file may change at any time. Allocates nothing.
 */
const char *gf_elf_fault(const char *path);
