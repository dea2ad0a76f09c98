/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot is the pointer through which a loaded library calls a function of another library: an
 * entry of its global offset table (relocation GLOB_DAT or JUMP_SLOT).
 */
#ifndef GF_ENGINE_TRANSFER_IMPORTS_IMPORT_SLOT_H
#define GF_ENGINE_TRANSFER_IMPORTS_IMPORT_SLOT_H

#include "base/base.h"

#include <link.h>

typedef void gf_import(void); /* a function of any type */

enum gf_import_state {
    gf_import_replaced,
    /*
     * The object has no such slot, or its slot does not lead to libc: another library or the
     * program interposes the function, or the slot was replaced before.
     */
    gf_import_kept,
    /*
     * The loader resolves the slot when the object first calls the function, or is relocating the
     * object now.
     */
    gf_import_unresolved,
};

/* Returns the object's dynamic section; NULL: it has none. */
const ElfW(Dyn) * gf_import_dynamic(const struct dl_phdr_info *object);

/*
 * Replaces the object's slot of `function` if it leads into libc. Called inside dl_iterate_phdr, so
 * that the object stays loaded.
 */
enum gf_import_state gf_import_slot_replace(const struct dl_phdr_info *object, const char *function,
                                            gf_import *replacement);

#endif
