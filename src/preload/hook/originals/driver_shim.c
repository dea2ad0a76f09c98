/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/originals/driver_shim.h"

#include "base/atomic.h"
#include "base/symbols.h"
#include "gpufeed.h"
#include "base/path.h"
#include "preload/hook/originals/originals.h"

#include <elf.h>
#include <link.h>
#include <string.h>

static bool is_nsight(const char *path)
{
    static const char name[] = "libcuda-injection";
    return strncmp(gf_path_file_name(path), name, sizeof(name) - 1) == 0;
}

/*
 * If no definition of dlopen follows the object in search order, the object itself was opened by
 * dlopen, so it intercepts no call. Another copy of this library is not a shim either.
 */
static bool is_shim(const struct gf_symbol *object)
{
    struct gf_symbol found;
    return gf_symbol_find("dlopen", object->address, &found) && !gf_own_image_is(object->base) &&
           (gf_symbol_find_in(object->base, "dlopen", &found) || is_nsight(object->object));
}

static bool find_shim(struct gf_symbol *ret)
{
    bool found = gf_symbol_find("cuInit", _DYNAMIC, ret);
    while (found && !is_shim(ret))
        found = gf_symbol_find("cuInit", ret->address, ret);
    return found;
}

const struct gf_symbol *gf_driver_shim(void)
{
    static struct gf_symbol shim; /* every thread stores the same value */
    static _Atomic int known;     /* 1: none, 2: found */
    int answer = gf_load_acquire(&known);
    if (gf_unlikely(!answer)) {
        struct gf_symbol found;
        answer = find_shim(&found) ? 2 : 1;
        if (answer == 2)
            shim = found;
        gf_store_release(&known, answer);
    }
    return answer == 2 ? &shim : NULL;
}

bool gf_driver_shim_is_own_handle(void *handle)
{
    /*
     * A shim may return handles that do not come from the loader, and which point to no link_map. A
     * handle by which our symbol is found comes from the loader.
     */
    return handle != RTLD_DEFAULT && handle != RTLD_NEXT &&
           gf_originals()->dlsym(handle, "gpufeed_version") == (void *)gpufeed_version &&
           ((const struct link_map *)handle)->l_ld == _DYNAMIC;
}
