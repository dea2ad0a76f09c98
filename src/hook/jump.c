/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/jump.h"

#include "heap/heap.h"
#include "hook/originals.h"
#include "hook/counters.h"
#include "hook/routes.h"
#include "hook/second.h"
#include "hook/stand_in.h"
#include "hook/thread.h"

__typeof__(dlsym) *gf_jump_dlsym;
__typeof__(dlopen) *gf_jump_dlopen;
int gf_jump_dlopen_keep = ~0;

void gf_jump_prepare_dlsym(void)
{
    __atomic_store_n(&gf_jump_dlsym, gf_originals()->dlsym, __ATOMIC_RELEASE);
}

void gf_jump_prepare_dlopen(void)
{
    if (!gf_heap_before_dlopen())
        __atomic_store_n(&gf_jump_dlopen_keep, ~RTLD_DEEPBIND, __ATOMIC_RELAXED);
    __atomic_store_n(&gf_jump_dlopen, gf_originals()->dlopen, __ATOMIC_RELEASE);
}

/*
 * The global scope holds the door's exports even where nobody loaded libcuda. A program that looks
 * there to learn whether it has CUDA is told what it would be told without us: what stands behind
 * the door, or nothing.
 */
static struct gf_jump_answer behind_the_door(const char *name)
{
    if (gf_routes_cuda())
        return (struct gf_jump_answer){0};
    return (struct gf_jump_answer){gf_originals()->dlsym(RTLD_NEXT, name), 1};
}

/*
 * Asked of the door by a program that meant to open libcuda: what the handle would have given that it
 * would have got without us.
 */
static struct gf_jump_answer of_the_stand_in(const char *name)
{
    void *found = gf_originals()->dlsym(RTLD_NEXT, name);
    void *hook = NULL;
    if (!gf_thread.guard && !gf_thread.in_driver && !gf_stays_out())
        hook = gf_routes_substitute(gf_routes_by_address(found), found);
    return (struct gf_jump_answer){hook ? hook : found, 1};
}

struct gf_jump_answer gf_jump_answer(void *handle, const char *name)
{
    struct gf_jump_answer answer = {0};
    void *found = gf_originals()->dlsym(handle, name);

    if ((!found || (gf_stand_in() && gf_routes_is_hook(found))) && gf_stand_in_is_door(handle))
        return of_the_stand_in(name);
    /* The driver's own look-ups and the engine's get what they would get without us. */
    if (!found || gf_thread.guard || gf_thread.in_driver)
        return answer;
    if (gf_routes_is_hook(found))
        return behind_the_door(name);
    if (handle == RTLD_DEFAULT || gf_stays_out())
        return answer;
    gf_count(gf_hook_dlsym);
    answer.address = gf_routes_substitute(gf_routes_by_address(found), found);
    answer.is_final = answer.address != NULL;
    return answer;
}
