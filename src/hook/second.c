/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/second.h"

#include "base/copies.h"
#include "config/birth.h"

static const char here;

bool gf_stays_out(void)
{
    static int known; /* 1: no, 2: yes; the same from every thread */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (gf_unlikely(!answer)) {
        answer = gf_birth_options()->mode == gf_mode_off || gf_copy_before(&here) ? 2 : 1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

bool gf_second_find(struct gf_symbol *ret_this, struct gf_symbol *ret_second)
{
    return gf_symbol_holder(&here, ret_this) && gf_copy_behind(&here, ret_second);
}
