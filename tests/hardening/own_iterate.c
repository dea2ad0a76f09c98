/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that defines dl_iterate_phdr and finds the next definition by dlsym, like Seastar and
 * some profilers.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

typedef int iterate(int (*)(struct dl_phdr_info *, size_t, void *), void *);

int dl_iterate_phdr(int (*call)(struct dl_phdr_info *, size_t, void *), void *closure)
{
    static iterate *next;

    if (!next)
        next = (iterate *)dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return next(call, closure);
}

static int count(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)info, (void)size;
    ++*(int *)closure;
    return 0;
}

int main(void)
{
    int objects = 0;
    void *block = malloc(100000);
    dl_iterate_phdr(count, &objects);
    free(block);
    puts(objects > 2 && dlsym(RTLD_DEFAULT, "strlen") ? "found" : "none");
    return 0;
}
