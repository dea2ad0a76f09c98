/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a program may call in the preloaded libgpufeed.so. Nothing needs to be linked: the
 * symbols are weak, so the same binary runs with and without the library.
 *
 *     #include <gpufeed.h>
 *     if (gpufeed_is_active())
 *         printf("fed by gpufeed %s from node %d\n", gpufeed_get_version(), gpufeed_get_node());
 *
 * Every function may be called in any thread; none changes errno. Except for gpufeed_report, none
 * blocks or allocates, so a signal handler may call it.
 * A program that is linked neither as position-independent code nor against the library sees it as
 * absent; gcc and clang make position-independent programs by default.
 */
#ifndef GPUFEED_H
#define GPUFEED_H

#include <stddef.h>

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

/* The NUMA node on which threads and memory are placed; -1 if unknown or not placed. */
GPUFEED_API int gpufeed_gpu_node(void);

/*
 * Ends the current step and starts the step with this number, for the events of GPUFEED_LOG and for
 * the report's count of steps; 0 starts none. Steps belong to the process, so one thread should mark
 * them. The number of the current step changes nothing.
 */
GPUFEED_API void gpufeed_step(unsigned long long step);

/*
 * Writes the report (GPUFEED_REPORT, docs/report.md) of this moment into text, as JSON with a final
 * 0. Like snprintf, returns the length that the whole report needs, and writes at most size bytes;
 * text may be NULL if size is 0. The report may become longer between two calls. Returns 0 while
 * gpufeed_active() is 0, at exit, and if another thread writes a report for 100 ms. Not for signal
 * handlers.
 */
GPUFEED_API size_t gpufeed_report(char *text, size_t size);

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

static inline size_t gpufeed_get_report(char *text, size_t size)
{
    return gpufeed_report ? gpufeed_report(text, size) : 0;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
