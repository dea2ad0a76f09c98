/* SPDX-License-Identifier: Apache-2.0 */
/* Libc: threads and their masks. */
#include "config/startup_env.h"
#include "os/permit.h"
#include "preload/attach/attach.h"
#include "preload/attach/counters.h"
#include "preload/attach/driver.h"
#include "preload/attach/originals.h"
#include "preload/attach/threads.h"
#include "preload/malloc/start.h"

/*
 * The hook of pthread_create. While there is no engine and no thread's class was recorded, a call
 * that creates a thread of the program passes through. In all other cases the hook records the new
 * thread's class. A new thread of the program then also calls the engine.
 */

/* Runs on a new thread of the program. */
static void announce_thread(void)
{
    GF_WITH_ENGINE(engine->thread_started());
}

/*
 * Whether attr sets a CPU mask. If attr has no mask, glibc returns a mask of all ones. If the mask
 * does not fit, glibc returns EINVAL.
 */
static bool has_affinity(const pthread_attr_t *attr)
{
    struct gf_cpus mask;
    if (!attr)
        return false;
    if (pthread_attr_getaffinity_np(attr, sizeof(mask), (cpu_set_t *)&mask) != 0)
        return true;
    for (size_t i = 0; i < GF_ARRAY_LEN(mask.word); i++)
        if (mask.word[i] != UINT64_MAX)
            return true;
    return false;
}

/*
 * Inside the library, only a handler of the program's signals, or a tool's callback, creates a thread
 * by pthread_create. Such a thread is the program's, as any other.
 */
static enum gf_thread_class classify_thread(const pthread_attr_t *attr, const void *caller)
{
    if (gf_thread.ours)
        return gf_thread_ours;
    if (gf_thread.in_driver || gf_driver_contains(caller))
        return gf_thread_driver;
    return has_affinity(attr) ? gf_thread_self_set : gf_thread_program;
}

int gf_on_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                         void *arg)
{
    gf_count(gf_hook_pthread_create);
    gf_start();
    const enum gf_thread_class class = classify_thread(attr, __builtin_return_address(0));
    if (class != gf_thread_program)
        return gf_thread_start(ret, attr, run, arg, class, NULL);
    if (!gf_engine() && !gf_thread_class_used())
        return gf_originals()->pthread_create(ret, attr, run, arg);
    return gf_thread_start(ret, attr, run, arg, class, announce_thread);
}

/*
 * jemalloc's key must be one of the first 32, whose values libc keeps in the thread. For a later key,
 * pthread_setspecific allocates memory, also within jemalloc's start and within a thread's first
 * malloc, which jemalloc does not expect: fork took its locks twice, and a thread that had ended stayed
 * in its lists. So the heap starts before the program creates a key.
 */
int gf_on_pthread_key_create(pthread_key_t *ret, void (*destroy)(void *))
{
    gf_start();
    return gf_originals()->pthread_key_create(ret, destroy);
}

int gf_on_tss_create(tss_t *ret, tss_dtor_t destroy)
{
    gf_start();
    return gf_originals()->tss_create(ret, destroy);
}

/*
 * The hooks of sched_setaffinity and pthread_setaffinity_np, which pass the calls through.
 * Successful calls are recorded, because the library never binds a thread whose mask the program
 * has set.
 */

/*
 * Uses a raw system call, because another preloaded library may wrap libc's function. Returns false
 * on failure.
 */
static bool read_affinity(pid_t tid, struct gf_cpus *ret)
{
    gf_keep_errno();
    memset(ret, 0, sizeof(*ret));
    return syscall(SYS_sched_getaffinity, tid, sizeof(*ret), ret) > 0;
}

/*
 * Whether the program makes this call. Also records the start mask, before the call can change it. The
 * filter of a sealed process may forbid the calls that read masks, and the library then sets no mask.
 */
static bool is_programs_call(void)
{
    if (gf_permit_sealed())
        return false;
    gf_startup_env();
    return !gf_thread.inside && !gf_thread.ours && !gf_thread.in_driver;
}

static void record_change(pid_t tid, const struct gf_cpus *before)
{
    gf_keep_errno();
    struct gf_cpus after;
    if (read_affinity(tid, &after))
        gf_thread_class_affinity(tid, before, &after);
}

/*
 * Returns a thread's id, which is a part of the thread's clock id. glibc before 2.42 has no
 * function that returns it.
 */
static pid_t thread_id(pthread_t thread)
{
    clockid_t clock;
    if (pthread_equal(thread, pthread_self()))
        return gettid();
    return pthread_getcpuclockid(thread, &clock) == 0 ? ~(clock >> 3) : 0;
}

/* tid_of: the id of `thread` */
#define AFFINITY_HOOK(symbol, type, tid_of)                                                        \
    int gf_on_##symbol(type thread, size_t size, const cpu_set_t *mask)                            \
    {                                                                                              \
        struct gf_cpus before;                                                                     \
        const pid_t tid = is_programs_call() ? (tid_of) : 0;                                       \
                                                                                                   \
        gf_count(gf_hook_##symbol);                                                                \
        const bool known = tid > 0 && read_affinity(tid, &before);                                 \
        const int result = gf_originals()->symbol(thread, size, mask);                             \
        if (result == 0 && known)                                                                  \
            record_change(tid, &before);                                                           \
        return result;                                                                             \
    }

AFFINITY_HOOK(sched_setaffinity, pid_t, thread ? thread : gettid())
AFFINITY_HOOK(pthread_setaffinity_np, pthread_t, thread_id(thread))

/*
 * The hooks of the functions that set and read the size of a thread's stack. glibc places this
 * library's thread-local variables in each thread's stack, and malloc and the hooks need more stack
 * than glibc's functions. So EXTRA is added to a small size. The size in the attributes counts for
 * all users: pthread_create, the default attributes, and libc's own threads (timer_create, aio_read,
 * mq_notify, getaddrinfo_a). The functions that read the attributes return the size that was set.
 *
 * glibc rounds the size down to a multiple of ALIGNMENT when it creates the thread. So any other size in
 * attributes without an address has EXTRA, and all sizes that are no such multiple get it. A multiple
 * also gets MARK. A size that has this remainder itself gets GF_STACK_LARGE, so that it exceeds all of those.
 */

#define EXTRA ((size_t)16 << 10)
#define ALIGNMENT 64U
#define MARK 1U
#define LARGEST ((size_t)1 << 56) /* more than the address space; RLIM_INFINITY is larger */

static bool is_enlarged(size_t size)
{
    return size % ALIGNMENT && size > EXTRA && size <= LARGEST;
}

static size_t size_to_set(size_t size)
{
    const size_t rest = size % ALIGNMENT;
    return size + EXTRA + (rest == 0 ? MARK : rest == MARK ? GF_STACK_LARGE : 0);
}

static size_t size_that_was_set(size_t size)
{
    if (size % ALIGNMENT != MARK)
        return size - EXTRA;
    return size - EXTRA - (size > GF_STACK_LARGE + EXTRA ? GF_STACK_LARGE : MARK);
}

/*
 * The size of the memory at an address that the caller set is not enlarged. If the caller set no size,
 * getstack returns 0, and getstacksize returns the default.
 */
static bool has_address(const pthread_attr_t *attr)
{
    void *start;
    size_t size;
    return gf_originals()->pthread_attr_getstack(attr, &start, &size) != 0 ||
           (size && (uintptr_t)start + size != 0);
}

int gf_on_pthread_attr_setstacksize(pthread_attr_t *attr, size_t size)
{
    const int error = gf_originals()->pthread_attr_setstacksize(attr, size);

    if (!error && (size < GF_STACK_LARGE || size % ALIGNMENT) && size <= LARGEST &&
        !has_address(attr))
        gf_originals()->pthread_attr_setstacksize(attr, size_to_set(size));
    return error;
}

/* The memory at the address is as large as the program set. */
int gf_on_pthread_attr_setstackaddr(pthread_attr_t *attr, void *address)
{
    void *start;
    size_t size;
    const bool enlarged = gf_originals()->pthread_attr_getstack(attr, &start, &size) == 0 &&
                          is_enlarged(size) && (uintptr_t)start + size == 0;
    const int error = gf_originals()->pthread_attr_setstackaddr(attr, address);

    if (!error && enlarged)
        gf_originals()->pthread_attr_setstacksize(attr, size_that_was_set(size));
    return error;
}

int gf_on_pthread_attr_getstacksize(const pthread_attr_t *attr, size_t *ret)
{
    const int error = gf_originals()->pthread_attr_getstacksize(attr, ret);

    if (!error && is_enlarged(*ret) && !has_address(attr))
        *ret = size_that_was_set(*ret);
    return error;
}

int gf_on_pthread_attr_getstack(const pthread_attr_t *attr, void **ret_start, size_t *ret_size)
{
    const int error = gf_originals()->pthread_attr_getstack(attr, ret_start, ret_size);

    if (!error && is_enlarged(*ret_size) && (uintptr_t)*ret_start + *ret_size == 0) {
        const size_t size = size_that_was_set(*ret_size);
        *ret_start = (char *)*ret_start + (*ret_size - size);
        *ret_size = size;
    }
    return error;
}
