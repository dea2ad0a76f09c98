/* SPDX-License-Identifier: Apache-2.0 */
/*
 * These calls are in a separate file: in the file that defines realloc and free,
 * -fno-semantic-interposition would bind the calls to the definitions there.
 */
#include "preload/malloc/interposed_call.h"

#include <stdlib.h>

void *gf_interposed_realloc(void *block, size_t size)
{
    return realloc(block, size);
}

void gf_interposed_free(void *block)
{
    free(block);
}
