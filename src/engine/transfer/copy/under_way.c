/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/under_way.h"

#include "base/atomic.h"

#include <pthread.h>

static _Atomic uint64_t under_way[gf_direction_count][gf_maker_count];

/* Bytes of the calling thread's current copies; 0: no copy. */
static __thread uint64_t own[gf_direction_count][gf_maker_count];

/*
 * If a thread is cancelled or calls pthread_exit inside the driver's call, that call never returns.
 * The destructor of this key then ends the thread's copies.
 */
static struct {
    pthread_once_t once;
    pthread_key_t key;
    bool exists;
} at_end = {.once = PTHREAD_ONCE_INIT};

static __thread bool ends_copies;

static void end_copies(void *closure)
{
    (void)closure;
    for (unsigned direction = 0; direction < gf_direction_count; direction++)
        for (unsigned maker = 0; maker < gf_maker_count; maker++)
            gf_under_way_leave((enum gf_direction)direction, (enum gf_maker)maker);
    ends_copies = false;
}

static void create_key(void)
{
    at_end.exists = pthread_key_create(&at_end.key, end_copies) == 0;
}

/*
 * If the key or the memory for its value cannot be created, a copy stays counted when its thread
 * ends inside the driver's call.
 */
static void prepare_end(void)
{
    pthread_once(&at_end.once, create_key);
    if (at_end.exists)
        pthread_setspecific(at_end.key, own);
    ends_copies = true;
}

uint64_t gf_under_way_enter(enum gf_direction direction, enum gf_maker maker, uint64_t bytes)
{
    if (!ends_copies)
        prepare_end();
    const uint64_t more = bytes - own[direction][maker]; /* calculated modulo 2^64, like the sum */

    own[direction][maker] = bytes;
    return gf_add_relaxed(&under_way[direction][maker], more) + more;
}

uint64_t gf_under_way_leave(enum gf_direction direction, enum gf_maker maker)
{
    const uint64_t bytes = own[direction][maker];

    own[direction][maker] = 0;
    return bytes ? gf_sub_relaxed(&under_way[direction][maker], bytes)
                 : gf_load_relaxed(&under_way[direction][maker]);
}

bool gf_under_way_by_driver(void)
{
    return gf_load_relaxed(&under_way[gf_direction_h2d][gf_maker_driver]) ||
           gf_load_relaxed(&under_way[gf_direction_d2h][gf_maker_driver]);
}
