/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of setrlimit and prlimit, which pass the call through. The kernel counts the memory that
 * the heap keeps against RLIMIT_AS and RLIMIT_DATA, so the heap keeps nothing under such a limit. A
 * child of vfork sets its own limits, but runs in its parent's memory.
 */
#include "os/own_table.h"
#include "preload/heap/heap.h"
#include "preload/hook/originals/originals.h"

#include <sys/resource.h>

static int note_limit(int result, pid_t pid, int resource, const struct rlimit64 *limit)
{
    if (result == 0 && limit && (pid == 0 || pid == getpid()) && gf_thread_is_own())
        gf_heap_limit(resource, limit->rlim_cur);
    return result;
}

int gf_on_setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
    return note_limit(gf_originals()->setrlimit64(resource, limit), 0, (int)resource, limit);
}

int gf_on_prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limit,
                    struct rlimit64 *ret_old)
{
    return note_limit(gf_originals()->prlimit64(pid, resource, limit, ret_old), pid, (int)resource,
                      limit);
}

/* On 64-bit systems, both structs are the same. */
static const struct rlimit64 *wide(const struct rlimit *limit)
{
    return (const void *)limit;
}

int gf_on_setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    return note_limit(gf_originals()->setrlimit(resource, limit), 0, (int)resource, wide(limit));
}

int gf_on_prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit,
                  struct rlimit *ret_old)
{
    return note_limit(gf_originals()->prlimit(pid, resource, limit, ret_old), pid, (int)resource,
                      wide(limit));
}
