/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a program may call in the preloaded libgpufeed.so. Nothing needs to be linked: the
 * symbols are weak, so the same binary runs with and without the library.
 *
 *     #include <gpufeed.h>
 *     if (gpufeed_is_active())
 *         printf("fed by gpufeed %s from node %d\n", gpufeed_get_version(), gpufeed_get_node());
 *
 * Every function may be called in any thread at any time; none blocks, allocates or changes errno.
 * A program that is linked neither as position-independent code nor against the library sees it as
 * absent; gcc and clang make position-independent programs by default.
 */
#ifndef GPUFEED_H
#define GPUFEED_H

#ifdef __cplusplus
extern "C" {
#endif

#ifdef GPUFEED_BUILDING
#define GPUFEED_API __attribute__((visibility("default")))
#else
#define GPUFEED_API __attribute__((weak))
#endif

/* "0.1.0". The pointer stays valid. */
GPUFEED_API const char *gpufeed_version(void);

/* 1 once the engine is loaded, that is after the process's first successful cuInit; 0 before, in a
 * forked child of such a process, and with GPUFEED=off. */
GPUFEED_API int gpufeed_active(void);

/* The NUMA node on which threads and memory are placed; -1 if it is unknown or there is none. */
GPUFEED_API int gpufeed_gpu_node(void);

/* The step that the program is in from now on, for the events of GPUFEED_LOG; 0 for no step. */
GPUFEED_API void gpufeed_step(unsigned long long step);

#ifndef GPUFEED_BUILDING
/* The same functions for programs that also run without the library; they then return NULL, 0
 * and -1. */
static inline const char *gpufeed_get_version(void)
{
    return gpufeed_version ? gpufeed_version() : (const char *)0;
}

static inline int gpufeed_is_active(void)
{
    return gpufeed_active ? gpufeed_active() : 0;
}

static inline int gpufeed_get_node(void)
{
    return gpufeed_gpu_node ? gpufeed_gpu_node() : -1;
}

static inline void gpufeed_set_step(unsigned long long step)
{
    if (gpufeed_step)
        gpufeed_step(step);
}
#endif

#ifdef __cplusplus
}
#endif

#endif
