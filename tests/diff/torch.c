/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose file is named like PyTorch's own. As there, one function reads a tensor by fread,
 * whose address is in the global offset table, and which the loader resolves at the first call.
 */
#include <stdio.h>

__attribute__((visibility("default"))) size_t stream_read(void *to, size_t size, size_t count,
                                                          FILE *stream);

size_t stream_read(void *to, size_t size, size_t count, FILE *stream)
{
    return fread(to, size, count, stream);
}
