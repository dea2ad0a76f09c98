/* SPDX-License-Identifier: Apache-2.0 */
/*
 * These functions are in a file of their own. In the file that defines realloc and free,
 * -fno-semantic-interposition would bind their calls to the definitions there.
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
