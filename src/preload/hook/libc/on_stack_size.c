/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the functions that set and read the size of a thread's stack. glibc places this
 * library's thread-local variables in each thread's stack, and malloc and the hooks need more stack
 * than glibc's functions. So EXTRA is added to a small size. The size in the attributes counts for
 * all users: pthread_create, the default attributes, and libc's own threads (timer_create, aio_read,
 * mq_notify, getaddrinfo_a). The functions that read the attributes return the size that was set.
 *
 * A size with EXTRA is marked by its lowest bits, unless they are in use. glibc rounds the size down
 * to a multiple of ALIGNMENT when it creates the thread.
 */
#include "preload/hook/originals/originals.h"
#include "preload/malloc/default_stack.h"

#define EXTRA ((size_t)16 << 10)
#define ALIGNMENT 64U
#define MARK 13U

static bool is_enlarged(size_t size)
{
    return size % ALIGNMENT == MARK && size > EXTRA && size - EXTRA < GF_STACK_LARGE + ALIGNMENT;
}

static size_t size_that_was_set(size_t size)
{
    return is_enlarged(size) ? size - EXTRA - MARK : size;
}

/* The memory at an address that the caller set is not larger. */
static bool has_address(const pthread_attr_t *attr)
{
    void *start;
    size_t size;
    return gf_originals()->pthread_attr_getstack(attr, &start, &size) != 0 ||
           (uintptr_t)start + size != 0;
}

int gf_on_pthread_attr_setstacksize(pthread_attr_t *attr, size_t size)
{
    const int error = gf_originals()->pthread_attr_setstacksize(attr, size);

    if (!error && size < GF_STACK_LARGE && !has_address(attr))
        gf_originals()->pthread_attr_setstacksize(attr,
                                                  size + EXTRA + (size % ALIGNMENT ? 0 : MARK));
    return error;
}

int gf_on_pthread_attr_getstacksize(const pthread_attr_t *attr, size_t *ret)
{
    const int error = gf_originals()->pthread_attr_getstacksize(attr, ret);

    if (!error)
        *ret = size_that_was_set(*ret);
    return error;
}

int gf_on_pthread_attr_getstack(const pthread_attr_t *attr, void **ret_start, size_t *ret_size)
{
    const int error = gf_originals()->pthread_attr_getstack(attr, ret_start, ret_size);

    if (!error && is_enlarged(*ret_size)) {
        const size_t size = size_that_was_set(*ret_size);
        *ret_start = (char *)*ret_start + (*ret_size - size);
        *ret_size = size;
    }
    return error;
}
