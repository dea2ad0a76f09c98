/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a program may call in the preloaded libgpufeed.so. Nothing needs to be linked: the
 * symbols are weak, so the same binary runs with and without the library.
 *
 *     #include <gpufeed.h>
 *     if (gpufeed_is_active())
 *         printf("fed by gpufeed %s from node %d\n", gpufeed_get_version(), gpufeed_get_node());
 *
 * Any thread may call these functions, and they keep errno. Only gpufeed_report may block or
 * allocate. A signal handler may call all functions except gpufeed_report.
 *
 * A program that is not position-independent must be linked against the library. Otherwise the
 * symbols are NULL even if the library is preloaded. gcc and clang make position-independent
 * programs by default.
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

/*
 * Returns the library's version, such as "0.1.0". The string is valid for the life of the process.
 */
GPUFEED_API const char *gpufeed_version(void);

/*
 * Returns 1 after the engine was loaded, which happens after the process's first successful cuInit.
 * Returns 0 before that, in a forked child of a process that loaded the engine, and with
 * GPUFEED=off.
 */
GPUFEED_API int gpufeed_active(void);

/*
 * Returns the NUMA node of the process's GPU, even if no thread is bound to it. Returns -1 if the
 * node is not known yet, if the process uses GPUs of several nodes, and with GPUFEED=observe.
 */
GPUFEED_API int gpufeed_gpu_node(void);

/*
 * Ends the current step, and starts the step with the given number. With 0, no new step starts. The
 * log (GPUFEED_LOG) states in which step a stall happened, and the report counts the steps. All
 * threads share one current step, so only one thread should mark steps. A call with the number of
 * the current step has no effect.
 */
GPUFEED_API void gpufeed_step(unsigned long long step);

/*
 * Writes the current report (GPUFEED_REPORT, docs/report.md) into text, as JSON with a terminating
 * 0. Like snprintf, returns the length that the whole report needs, and writes at most size bytes;
 *   text may be NULL if size is 0. The report may become longer between two calls. Returns 0 while
 *   gpufeed_active() returns 0, while the process exits, and if another thread takes longer than
 *   100 ms to write a report. Signal handlers must not call this function.
 */
GPUFEED_API size_t gpufeed_report(char *text, size_t size);

#ifndef GPUFEED_BUILDING
/*
 * For programs that must also run without the library. Each function below calls the corresponding
 * function above. If the library is not loaded, it returns NULL, 0 or -1 instead.
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
