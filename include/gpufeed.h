/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a program may call in the preloaded libgpufeed.so. Nothing needs to be linked: the
 * symbols are weak, so the same binary runs with and without the library.
 *
 *     #include <gpufeed.h>
 *     if (gpufeed_is_active())
 *         printf("fed by gpufeed %s from node %d\n", gpufeed_get_version(), gpufeed_get_node());
 *
 * Any thread may call these functions, and they keep errno. All but gpufeed_report neither block
 * nor allocate, so a signal handler may call them.
 *
 * In a program that is neither position-independent nor linked against the library, the symbols are
 * NULL even under the preload. gcc and clang make position-independent programs by default.
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

/*
 * 1 once the engine is loaded, after the process's first successful cuInit. 0 before that, in a
 * forked child of such a process, and with GPUFEED=off.
 */
GPUFEED_API int gpufeed_active(void);

/*
 * The NUMA node of the process's GPU, even if nothing is bound; -1 if it is not known yet, if the
 * process uses GPUs of several nodes, and with GPUFEED=observe.
 */
GPUFEED_API int gpufeed_gpu_node(void);

/*
 * Ends the current step, and starts the step with this number; 0 starts none. Events of GPUFEED_LOG
 * contain the number, and the report counts the steps. All threads share one current step, so only
 * one thread should mark steps. A call with the number of the current step has no effect.
 */
GPUFEED_API void gpufeed_step(unsigned long long step);

/*
 * Writes the current report (GPUFEED_REPORT, docs/report.md) into text, as JSON with a terminating
 * 0. Like snprintf, returns the length that the whole report needs, and writes at most size bytes;
 * text may be NULL if size is 0. The report may become longer between two calls. Returns 0 while
 * gpufeed_active() is 0, at exit, and if another thread takes longer than 100 ms to write a report.
 * Signal handlers must not call this function.
 */
GPUFEED_API size_t gpufeed_report(char *text, size_t size);

#ifndef GPUFEED_BUILDING
/*
 * The same functions for programs that also run without the library. Without it they return NULL, 0
 * or -1.
 */
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
