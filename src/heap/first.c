/* SPDX-License-Identifier: Apache-2.0 */
/* A file of its own: beside their definitions, with -fno-semantic-interposition, these names would mean ours. */
#include "heap/first.h"

#include <stdlib.h>

void *gf_first_realloc(void *block, size_t size)
{
    return realloc(block, size);
}

void gf_first_free(void *block)
{
    free(block);
}
