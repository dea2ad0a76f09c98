/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/api/host_alloc.h"

#include "engine/transfer/files/imports.h"
#include "engine/transfer/pinned/pinned.h"

bool gf_host_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    gf_imports_request(bytes);
    return gf_pinned_alloc(pp, bytes, flags, ret_result);
}
