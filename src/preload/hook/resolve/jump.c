/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/resolve/jump.h"

#include "base/atomic.h"
#include "preload/hook/counters.h"
#include "preload/hook/hook_thread.h"
#include "preload/hook/originals/driver.h"
#include "preload/hook/originals/driver_shim.h"
#include "preload/hook/originals/duplicate_load.h"
#include "preload/hook/originals/originals.h"
#include "preload/hook/resolve/hook_table.h"
#include "preload/malloc/libc_names.h"
#include "preload/malloc/start.h"

_Atomic(__typeof__(dlsym) *) gf_jump_dlsym;
_Atomic(__typeof__(dlvsym) *) gf_jump_dlvsym;
_Atomic(__typeof__(dlopen) *) gf_jump_dlopen;
_Atomic int gf_jump_dlopen_mask = ~0;

void gf_jump_prepare_dlsym(void)
{
    gf_store_release(&gf_jump_dlsym, gf_originals()->dlsym);
    gf_store_release(&gf_jump_dlvsym, gf_originals()->dlvsym);
}

void gf_jump_before_next(void *handle, const char *name)
{
    (void)handle;
    if (gf_libc_names_contain(name) && gf_start_loaded())
        gf_libc_names_prepare();
}

void gf_jump_prepare_dlopen(void)
{
    if (!gf_libc_names_prepare())
        gf_store_relaxed(&gf_jump_dlopen_mask, ~RTLD_DEEPBIND);
    gf_store_release(&gf_jump_dlopen, gf_originals()->dlopen);
}

/*
 * A program may search the global scope to learn whether CUDA is present. That scope contains this
 * library's exports even if no libcuda is loaded. So the program gets the answer that it would get
 * without this library: the next definition after this library, or NULL.
 */
static struct gf_jump_answer answer_global(const char *name)
{
    if (gf_driver_functions())
        return (struct gf_jump_answer){0};
    return (struct gf_jump_answer){gf_originals()->dlsym(RTLD_NEXT, name), 1};
}

/*
 * The program opened libcuda, but got a handle of this library (driver_shim.h). So the name is
 * looked up after this library, in the shim.
 */
static struct gf_jump_answer answer_for_shim(const char *name)
{
    void *found = gf_originals()->dlsym(RTLD_NEXT, name);
    void *hook = NULL;
    if (!gf_thread.guard && !gf_thread.in_driver && !gf_duplicate_load_passes())
        hook = gf_hook_table_find(gf_driver_by_address(found), found);
    return (struct gf_jump_answer){hook ? hook : found, 1};
}

struct gf_jump_answer gf_jump_answer(void *handle, const char *name)
{
    struct gf_jump_answer answer = {0};
    void *found = gf_originals()->dlsym(handle, name);

    if ((!found || (gf_driver_shim() && gf_hook_table_contains(found))) &&
        gf_driver_shim_is_own_handle(handle))
        return answer_for_shim(name);
    /* Lookups by the driver and by the engine get the original's result. */
    if (!found || gf_thread.guard || gf_thread.in_driver)
        return answer;
    if (gf_hook_table_contains(found))
        return answer_global(name);
    if (handle == RTLD_DEFAULT || gf_duplicate_load_passes())
        return answer;
    gf_count(gf_hook_dlsym);
    answer.address = gf_hook_table_find(gf_driver_by_address(found), found);
    answer.is_final = answer.address != NULL;
    return answer;
}
