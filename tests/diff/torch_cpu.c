/* SPDX-License-Identifier: Apache-2.0 */
/* A library like PyTorch's libtorch_cpu: a copy that is divided as at::parallel_for divides it. */
#include <errno.h>
#include <omp.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void set_num_threads(int threads);
EXPORT int get_num_threads(void);
EXPORT int copy_to(char *to, const char *from, size_t bytes);

static __thread int chosen;

#ifdef OWN_THREAD_NUM
#define omp_get_thread_num own_thread_num
static int own_thread_num(void)
{
    return omp_get_level() ? omp_get_ancestor_thread_num(omp_get_level()) : 0;
}
#endif

#ifdef TWO_POINTERS
static int (*volatile thread_num)(void);
EXPORT int get_thread_num(void);
int get_thread_num(void)
{
    return omp_get_thread_num() + 1;
}
#define omp_get_thread_num() (thread_num = omp_get_thread_num, thread_num())
#endif

#ifdef SLOW
/* The loader calls resolve_part last, when it has filled all other pointers. It waits for a byte of the program. */
#define GATE 77
typedef size_t part_function(size_t bytes, size_t threads);
part_function *resolve_part(void);
static part_function part_of __attribute__((ifunc("resolve_part")));

static size_t divided(size_t bytes, size_t threads)
{
    return (bytes + threads - 1) / threads;
}

part_function *resolve_part(void)
{
    char byte;
    return read(GATE, &byte, 1) > 1 ? NULL : divided;
}
#else
static size_t part_of(size_t bytes, size_t threads)
{
    return (bytes + threads - 1) / threads;
}
#endif

void set_num_threads(int threads)
{
    chosen = threads;
    omp_set_num_threads(threads);
}

int get_num_threads(void)
{
    return omp_get_max_threads();
}

/* Returns how often omp_in_parallel, omp_get_max_threads or errno was wrong. */
int copy_to(char *to, const char *from, size_t bytes)
{
    const int wanted = chosen;
    int wrong = omp_in_parallel() != 0;

    if (omp_get_max_threads() == 1) {
        memcpy(to, from, bytes);
        return wrong;
    }
    errno = ERANGE;
#pragma omp parallel reduction(+ : wrong)
    {
        const size_t threads = (size_t)omp_get_num_threads(), thread = (size_t)omp_get_thread_num();
        const size_t part = part_of(bytes, threads), start = thread * part;
        wrong += !omp_in_parallel() + (omp_get_max_threads() != wanted);
        if (start < bytes)
            memcpy(to + start, from + start, bytes - start < part ? bytes - start : part);
    }
    return wrong + (errno != ERANGE);
}
