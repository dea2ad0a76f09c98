/* SPDX-License-Identifier: Apache-2.0 */
#include "host/mempolicy.h"

#include "base/fmt.h"
#include "host/private_env.h"
#include "os/permit.h"

#include <numaif.h>

_Static_assert(GF_MPOL_DEFAULT == MPOL_DEFAULT && GF_MPOL_PREFERRED == MPOL_PREFERRED &&
                   GF_MPOL_BIND == MPOL_BIND,
               "the kernel's numbers of memory policies");
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t),
               "node masks are passed as words of 64 bits");

#define WEIGHTED_INTERLEAVE 6 /* the kernel's number, which the headers of Debian 12 lack */

#define MODE_FLAGS 0xe000 /* MPOL_F_STATIC_NODES and the other mode flags */
/* The kernel expects the number of bits of the mask plus one. */
#define MASK_BITS (GF_NODES_MAX + 1)

static const unsigned long *mask_of(int mode, const struct gf_nodes *nodes)
{
    return mode == MPOL_DEFAULT ? NULL : (const unsigned long *)nodes->word;
}

int gf_mempolicy_get(void)
{
    int mode = 0;
    gf_keep_errno();
    const long failed = get_mempolicy(&mode, NULL, 0, NULL, 0);
    return failed ? -errno : mode & ~MODE_FLAGS;
}

bool gf_mempolicy_read(int *ret_mode, struct gf_nodes *ret_nodes)
{
    gf_keep_errno();
    *ret_nodes = (struct gf_nodes){0};
    const long failed =
        get_mempolicy(ret_mode, (unsigned long *)ret_nodes->word, MASK_BITS, NULL, 0);
    return !failed;
}

bool gf_mempolicy_is(int mode, const struct gf_nodes *nodes)
{
    struct gf_nodes found;
    int found_mode = 0;

    return gf_mempolicy_read(&found_mode, &found) && (found_mode & ~MODE_FLAGS) == mode &&
           gf_set_equal(&found, nodes);
}

int gf_mempolicy_set(int mode, const struct gf_nodes *nodes)
{
    if (!gf_permit(gf_permit_set_mempolicy))
        return -EPERM;
    gf_numa_env_allow();
    gf_keep_errno();
    const long failed =
        set_mempolicy(mode, mask_of(mode, nodes), mode == MPOL_DEFAULT ? 0 : MASK_BITS);
    return failed ? -errno : 0;
}

static int bind_range(void *start, size_t size, int mode, const struct gf_nodes *nodes,
                      unsigned flags)
{
    if (!gf_permit(gf_permit_mbind))
        return -EPERM;
    gf_keep_errno();
    const long failed =
        mbind(start, size, mode, mask_of(mode, nodes), mode == MPOL_DEFAULT ? 0 : MASK_BITS, flags);
    return failed ? -errno : 0;
}

int gf_mempolicy_refusal(const char **ret_call)
{
    static char page;
    const unsigned long *const nowhere = (const unsigned long *)8;
    gf_keep_errno();

    gf_numa_env_allow();
    *ret_call = "set_mempolicy";
    int error = !gf_permit(gf_permit_set_mempolicy)                 ? EPERM
                : set_mempolicy(MPOL_PREFERRED, nowhere, MASK_BITS) ? errno
                                                                    : 0;
    if (error == EFAULT) {
        *ret_call = "mbind";
        error = !gf_permit(gf_permit_mbind)                              ? EPERM
                : mbind(&page, 0, MPOL_PREFERRED, nowhere, MASK_BITS, 0) ? errno
                                                                         : 0;
    }
    return error == EFAULT ? 0 : error;
}

int gf_mempolicy_set_range(void *start, size_t size, int mode, const struct gf_nodes *nodes)
{
    return bind_range(start, size, mode, nodes, 0);
}

int gf_mempolicy_move_range(void *start, size_t size, int mode, const struct gf_nodes *nodes)
{
    return bind_range(start, size, mode, nodes, MPOL_MF_MOVE);
}

bool gf_mempolicy_binds(int mode)
{
    return (mode & ~MODE_FLAGS) == MPOL_BIND;
}

static char *format_policy(const char *name, const struct gf_nodes *nodes, char *buf, size_t size)
{
    char list[64];

    gf_fmt(buf, size, "%s%s%s", name, gf_set_empty(nodes) ? "" : ":",
           gf_set_format(nodes, list, sizeof(list)));
    return buf;
}

char *gf_mempolicy_format(int mode, const struct gf_nodes *nodes, char *buf, size_t size)
{
    return format_policy(gf_mempolicy_name(mode), nodes, buf, size);
}

char *gf_mempolicy_kernel_text(int mode, const struct gf_nodes *nodes, char *buf, size_t size)
{
    const char *name = mode == MPOL_PREFERRED           ? "prefer"
                       : mode == GF_MPOL_PREFERRED_MANY ? "prefer (many)"
                                                        : gf_mempolicy_name(mode);
    return format_policy(name, nodes, buf, size);
}

const char *gf_mempolicy_name(int mode)
{
    static const char *const names[] = {
        [MPOL_DEFAULT] = "default",
        [MPOL_PREFERRED] = "preferred",
        [MPOL_BIND] = "bind",
        [MPOL_INTERLEAVE] = "interleave",
        [MPOL_LOCAL] = "local",
        [GF_MPOL_PREFERRED_MANY] = "preferred-many",
        [WEIGHTED_INTERLEAVE] = "weighted-interleave",
    };
    mode &= 0xff; /* mode flags are in the higher bits */
    return mode < (int)GF_ARRAY_LEN(names) ? names[mode] : "other";
}
