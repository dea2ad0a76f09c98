/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program may ask the preloaded libgpufeed.so. Nothing needs to be linked: the symbols are
 * weak, so the same binary runs with and without the library.
 *
 *     #include <gpufeed.h>
 *     if (gpufeed_is_active())
 *         printf("fed by gpufeed %s from node %d\n", gpufeed_get_version(), gpufeed_get_node());
 *
 * Any thread, any time; nothing here blocks, allocates or touches errno. A program that is linked
 * neither as position-independent code nor against the library sees it as absent; gcc and clang
 * make position-independent programs by default.
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

/* 1 once the engine is up, that is after the process's first successful cuInit; 0 before, in a
 * forked child of such a process, and with GPUFEED=off. */
GPUFEED_API int gpufeed_active(void);

/* The NUMA node that threads and memory are given; -1 while unknown or when there is none. */
GPUFEED_API int gpufeed_gpu_node(void);

/* The step that the program is in from now on, for the events of GPUFEED_LOG; 0: none. */
GPUFEED_API void gpufeed_step(unsigned long long step);

#ifndef GPUFEED_BUILDING
/* The same, and defined when the library is absent: NULL, 0 and -1. */
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
