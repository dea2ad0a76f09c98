/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loader/own_image.h"

bool gf_own_image_is(uintptr_t base)
{
    struct gf_symbol found;

    return gf_symbol_find_in(base, "gpufeed_version", &found) &&
           gf_symbol_find_in(base, "cuGetProcAddress", &found);
}

bool gf_own_image_behind(const void *self, struct gf_symbol *ret)
{
    for (const void *from = self; gf_symbol_find("gpufeed_version", from, ret); from = ret->address)
        if (gf_own_image_is(ret->base))
            return true;
    return false;
}

bool gf_own_image_before(const void *self)
{
    struct gf_symbol first, own;

    return gf_symbol_holder(self, &own) && gf_own_image_behind(NULL, &first) &&
           first.base != own.base;
}
