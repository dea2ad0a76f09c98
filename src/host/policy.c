/* SPDX-License-Identifier: Apache-2.0 */
#include "host/policy.h"

#include "base/clock.h"

#include <numaif.h>

#include <errno.h>

_Static_assert(GF_MPOL_DEFAULT == MPOL_DEFAULT && GF_MPOL_PREFERRED == MPOL_PREFERRED &&
                   GF_MPOL_BIND == MPOL_BIND,
               "the kernel's numbers of memory policies");
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "node masks are passed as they are");

#define PIECE (UINT64_C(2) << 20)
#define MODE_FLAGS 0xe000 /* MPOL_F_STATIC_NODES and the like */
/* The kernel wants one more than the number of bits. */
#define MASK_BITS (GF_NODES_MAX + 1)

static const unsigned long *mask_of(int mode, const struct gf_nodes *nodes)
{
    return mode == MPOL_DEFAULT ? NULL : (const unsigned long *)nodes->word;
}

int gf_policy_get(void)
{
    int mode = 0;
    const int saved = errno;
    const long failed = get_mempolicy(&mode, NULL, 0, NULL, 0);
    const int result = failed ? -errno : mode & ~MODE_FLAGS;
    errno = saved;
    return result;
}

bool gf_policy_is(int mode, const struct gf_nodes *nodes)
{
    struct gf_nodes found = {0};
    int found_mode = 0;
    const int saved = errno;
    const long failed =
        get_mempolicy(&found_mode, (unsigned long *)found.word, MASK_BITS, NULL, 0);
    errno = saved;
    return !failed && (found_mode & ~MODE_FLAGS) == mode && gf_set_equal(&found, nodes);
}

int gf_policy_set(int mode, const struct gf_nodes *nodes)
{
    const int saved = errno;
    const long failed =
        set_mempolicy(mode, mask_of(mode, nodes), mode == MPOL_DEFAULT ? 0 : MASK_BITS);
    const int result = failed ? -errno : 0;
    errno = saved;
    return result;
}

static int bind_range(void *start, size_t size, int mode, const struct gf_nodes *nodes,
                      unsigned flags)
{
    const int saved = errno;
    const long failed =
        mbind(start, size, mode, mask_of(mode, nodes), mode == MPOL_DEFAULT ? 0 : MASK_BITS, flags);
    const int result = failed ? -errno : 0;
    errno = saved;
    return result;
}

int gf_policy_set_range(void *start, size_t size, int mode, const struct gf_nodes *nodes)
{
    return bind_range(start, size, mode, nodes, 0);
}

void gf_policy_move(void *start, size_t size, int mode, const struct gf_nodes *nodes,
                    uint64_t budget_ns, struct gf_move *ret)
{
    const uint64_t until = gf_now_ns() + budget_ns;
    char *at = start;

    *ret = (struct gf_move){0};
    while (ret->asked < size) {
        if (gf_now_ns() >= until)
            return;
        const size_t piece = gf_min(size - ret->asked, PIECE - (uintptr_t)at % PIECE);
        const int error = bind_range(at, piece, mode, nodes, MPOL_MF_MOVE);
        if (error)
            ret->error = -error;
        at += piece;
        ret->asked += piece;
    }
    ret->done = true;
}
