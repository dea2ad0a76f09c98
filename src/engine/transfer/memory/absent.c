/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/memory/absent.h"

#include "engine/transfer/memory/page.h"
#include "os/permit.h"

#include <sys/mman.h>

bool gf_absent_mostly(uintptr_t start, size_t bytes, unsigned samples)
{
    const size_t page = gf_page_size();
    unsigned absent = 0;

    if (!gf_permit(gf_permit_mincore))
        return false;
    for (size_t i = 0; i < samples; i++) {
        unsigned char present = 1;
        if (mincore((void *)((start + bytes / samples * i) / page * page), page, &present) != 0)
            return false; /* not mapped */
        absent += !(present & 1);
    }
    return absent > samples / 2;
}
