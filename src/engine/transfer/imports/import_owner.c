/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/imports/import_owner.h"

#include "base/atomic.h"

#include <unistd.h>

static _Atomic pid_t owner;

void gf_import_owner_set(void)
{
    gf_store_relaxed(&owner, getpid());
}

void gf_import_owner_forked(void)
{
    gf_store_relaxed(&owner, 0);
}

bool gf_import_owner_is_here(void)
{
    return getpid() == gf_load_relaxed(&owner);
}
