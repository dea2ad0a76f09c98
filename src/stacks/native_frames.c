/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/native_frames.h"

#include <libunwind-ptrace.h>

/* A gf_native_unwinder is libunwind's address space, which caches unwind data of the objects. */
struct gf_native_unwinder *gf_native_unwinder_new(void)
{
    unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
    if (space)
        unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
    return (struct gf_native_unwinder *)space;
}

void gf_native_unwinder_free(struct gf_native_unwinder *unwinder)
{
    if (unwinder)
        unw_destroy_addr_space((unw_addr_space_t)unwinder);
}

size_t gf_native_frames(struct gf_native_unwinder *unwinder, pid_t tid, uintptr_t *ret, size_t cap)
{
    void *info = _UPT_create(tid);
    unw_cursor_t cursor;
    size_t count = 0;

    if (!info)
        return 0;
    if (unw_init_remote(&cursor, (unw_addr_space_t)unwinder, info) == 0)
        do {
            unw_word_t address = 0;
            if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || !address)
                break;
            ret[count++] = address;
        } while (count < cap && unw_step(&cursor) > 0);
    _UPT_destroy(info);
    return count;
}
