/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/presence.h"

#include "base/atomic.h"
#include "os/permit.h"

#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLES 64 /* number of pages of a block that are read if mincore must not be called */

static _Atomic bool allowed;

void gf_presence_allow(void)
{
    gf_store_relaxed(&allowed, true);
}

bool gf_presence_allowed(void)
{
    return gf_load_relaxed(&allowed) && gf_permit(gf_permit_mincore);
}

bool gf_presence_page(uintptr_t page)
{
    unsigned char present = 1;

    if (gf_presence_allowed())
        syscall(SYS_mincore, page, 1UL, &present);
    return present & 1;
}

/* Calls mincore for a few pages at a time, because the thread's stack may be small. */
static bool most_are_present(const char *start, size_t page, size_t count)
{
    unsigned char present[512];
    size_t missing = 0;
    bool ret = true;

    for (size_t at = 0; ret && at < count; at += sizeof(present)) {
        const size_t some = gf_min(count - at, sizeof(present));
        ret = syscall(SYS_mincore, start + at * page, some * page, present) == 0;
        for (size_t i = 0; ret && i < some; i++)
            missing += !(present[i] & 1);
        ret = ret && missing <= count / 8;
    }
    return ret;
}

static bool has_data(const char *start, size_t size)
{
    const uint64_t __attribute__((may_alias)) *word = (const void *)start;

    for (size_t i = 0; i < size / sizeof(*word); i++)
        if (word[i])
            return true;
    return false;
}

/*
 * A page with data is present. Reading an absent page maps the kernel's zero page, which uses no
 * memory.
 */
static bool most_have_data(const char *start, size_t page, size_t count)
{
    const size_t samples = gf_min(count, SAMPLES);
    size_t empty = 0;

    for (size_t i = 0; i < samples && empty <= samples / 8; i++)
        empty += !has_data(start + i * count / samples * page, page);
    return empty <= samples / 8;
}

bool gf_presence_most(const char *start, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = size / page;

    return gf_presence_allowed() ? most_are_present(start, page, count)
                                 : most_have_data(start, page, count);
}
