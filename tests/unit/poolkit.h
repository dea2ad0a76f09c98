/* SPDX-License-Identifier: Apache-2.0 */
/* Pools for tests. Each test uses a node number that no machine has, and so gets its own pool. */
#ifndef GF_TESTS_POOLKIT_H
#define GF_TESTS_POOLKIT_H

#include "unit.h"

#include "engine/transfer/pool.h"

#include <unistd.h>

#define AWAIT(condition)                                                                           \
    for (unsigned ms = 0; ms < 20000 && !(condition); ms++)                                        \
    usleep(1000)

static inline struct gf_pool *pool_of(int node, unsigned threads)
{
    static const struct gf_cpus any;
    struct gf_pool *pool = gf_pool_get(node, &any, &(struct gf_pool_size){.threads = threads});
    assert_non_null(pool);
    return pool;
}

static inline void await_helpers(const struct gf_pool *pool, unsigned number)
{
    AWAIT(gf_pool_helpers(pool) >= number);
    assert_int_equal(gf_pool_helpers(pool), number);
}

#endif
