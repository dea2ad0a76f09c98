/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/originals/duplicate_load.h"

#include "base/atomic.h"
#include "base/symbols.h"
#include "config/startup_env.h"

static const char here; /* an address in this copy of the library */

bool gf_duplicate_load_passes(void)
{
    static _Atomic int known; /* 1: no, 2: yes; every thread stores the same value */
    int answer = gf_load_relaxed(&known);

    if (gf_unlikely(!answer)) {
        answer =
            gf_startup_env_options()->mode == gf_mode_off || gf_own_image_before(&here) ? 2 : 1;
        gf_store_relaxed(&known, answer);
    }
    return answer == 2;
}

bool gf_duplicate_load_find(struct gf_symbol *ret_this, struct gf_symbol *ret_second)
{
    return gf_symbol_holder(&here, ret_this) && gf_own_image_behind(&here, ret_second);
}
