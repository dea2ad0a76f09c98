/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <stdlib.h>

/*
 * libunwind exports this for callers with their own accessors, such as perf, but no header declares
 * it.
 */
int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *info,
                                       unw_proc_info_t *ret, int need_unwind_info, void *closure);

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *ret, int need,
                          void *closure)
{
    struct reference *ref = closure;
    const struct object *object = objects_find(ref->objects, ip);
    int status = -UNW_ENOINFO;

    if (object) {
        unw_dyn_info_t info = {
            .start_ip = object->start,
            .end_ip = object->end,
            .format = UNW_INFO_FORMAT_REMOTE_TABLE,
            .u.rti = {.segbase = (unw_word_t)object->table.header,
                      .table_len = object->entries * 8 / sizeof(unw_word_t),
                      .table_data = (unw_word_t)object->table.header + 12},
        };
        status = UNW_OBJ(dwarf_search_unwind_table)(space, ip, &info, ret, need, closure);
    }
    if (status < 0)
        ref->guessed = true;
    return status;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *closure)
{
    (void)space, (void)info, (void)closure;
}

static int get_dyn_info(unw_addr_space_t space, unw_word_t *ret, void *closure)
{
    (void)space, (void)ret, (void)closure;
    return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
                      void *closure)
{
    struct reference *ref = closure;
    (void)space;
    return !write && ref->read(ref->closure, address, value) ? 0 : -UNW_EINVAL;
}

/* libunwind numbers x86_64's registers as DWARF does; 16 is the pc. */
static int access_reg(unw_addr_space_t space, unw_regnum_t i, unw_word_t *value, int write,
                      void *closure)
{
    const struct reference *ref = closure;

    (void)space;
    if (write || i < 0 || i >= GF_REGISTERS)
        return -UNW_EBADREG;
    *value = i == 16 ? ref->first.pc : ref->first.value[i];
    return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t i, unw_fpreg_t *value, int write,
                        void *closure)
{
    (void)space, (void)i, (void)value, (void)write, (void)closure;
    return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *closure)
{
    (void)space, (void)cursor, (void)closure;
    return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address, char *ret, size_t size,
                         unw_word_t *offset, void *closure)
{
    (void)space, (void)address, (void)ret, (void)size, (void)offset, (void)closure;
    return -UNW_ENOINFO;
}

void reference_open(struct reference *ref)
{
    static unw_accessors_t accessors = {find_proc_info, put_unwind_info, get_dyn_info,
                                        access_mem,     access_reg,      access_fpreg,
                                        resume,         get_proc_name};
    ref->space = unw_create_addr_space(&accessors, 0);
    if (!ref->space)
        abort();
    unw_set_caching_policy(ref->space, UNW_CACHE_NONE);
}

void reference_close(struct reference *ref)
{
    unw_destroy_addr_space(ref->space);
}

void reference_begin(struct reference *ref, unw_cursor_t *ret)
{
    ref->guessed = false;
    if (unw_init_remote(ret, ref->space, ref) != 0)
        abort();
}

size_t reference_walk(struct reference *ref, uintptr_t *ret, size_t most)
{
    unw_cursor_t cursor;
    uintptr_t pc = ref->first.pc;
    size_t count = 0;

    reference_begin(ref, &cursor);
    while (count < most && objects_find(ref->objects, pc)) {
        unw_word_t next;
        ret[count++] = pc;
        if (unw_step(&cursor) <= 0 || ref->guessed || unw_get_reg(&cursor, UNW_REG_IP, &next) != 0)
            break;
        pc = next - !unw_is_signal_frame(&cursor);
    }
    return count;
}
