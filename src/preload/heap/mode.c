/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/mode.h"

#include "base/fmt.h"
#include "base/path.h"

enum gf_heap_mode gf_mode_now;

enum gf_heap_mode gf_mode_decide(const struct gf_mode_facts *facts, char *buf, size_t size,
                                 const char **ret_reason)
{
    const struct gf_options *options = facts->options;
    const char *other = facts->before ? facts->before : facts->behind;

    *ret_reason = buf;
    if (options->mode == gf_mode_off)
        *ret_reason = "GPUFEED=off";
    else if (options->mode == gf_mode_observe)
        *ret_reason = "GPUFEED=observe";
    else if (facts->duplicate)
        *ret_reason = "another copy of the library serves malloc";
    else if (options->heap == gf_heap_off)
        *ret_reason = "GPUFEED_HEAP=off";
    else if (options->heap == gf_heap_wrap)
        *ret_reason = "GPUFEED_HEAP=wrap";
    else if (facts->page > facts->jemalloc_page)
        gf_fmt(buf, size,
               "the kernel has pages of %zu KiB, but jemalloc was built for at most %zu KiB",
               facts->page >> 10, facts->jemalloc_page >> 10);
    else if (facts->called_inside)
        *ret_reason = "a library called malloc before the heap could start";
    else if (facts->cramped)
        *ret_reason = "too little address space is left for jemalloc";
    else if (options->heap == gf_heap_auto && other)
        gf_fmt(buf, size, "%.96s serves malloc", *other ? gf_path_file_name(other) : "the program");
    else {
        *ret_reason = options->heap == gf_heap_replace ? "GPUFEED_HEAP=replace"
                                                       : "no other allocator is preloaded";
        return gf_heap_mode_replace;
    }
    return gf_heap_mode_passthrough;
}
