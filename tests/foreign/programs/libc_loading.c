/* SPDX-License-Identifier: Apache-2.0 */
/* Ideas of glibc's dlfcn/tst-*.c and elf/tst-*.c. */
#include "libc_case.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <link.h>

/* tst-dlsym-error */
CASE(errors)
{
    CHECK(!dlsym(RTLD_DEFAULT, "no such symbol") && strstr(dlerror(), "no such symbol"));
    CHECK(dlerror() == NULL);
    CHECK(!dlsym(RTLD_NEXT, "no such symbol") && dlerror());
    CHECK(!dlvsym(RTLD_DEFAULT, "malloc", "GLIBC_9.9") && dlerror());
    CHECK(!dlopen("/nonexistent/library.so", RTLD_NOW) && dlerror());
}

/* tst-dladdr, tst-rtld-default: each name is found, and leads to an object. */
CASE(names)
{
    static const char *const names[] = {"malloc", "free",   "dlsym",
                                        "munmap", "fork",   "pthread_create",
                                        "printf", "memcpy", "sched_setaffinity",
                                        "_exit",  "prctl",  "dlopen"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        Dl_info info;
        void *const found = dlsym(RTLD_DEFAULT, names[i]), *const next = dlsym(RTLD_NEXT, names[i]);
        CHECK(found && next && dladdr(found, &info) && info.dli_fname);
    }
    CHECK(dlsym(RTLD_DEFAULT, "main") == NULL || dlsym(RTLD_DEFAULT, "main") == (void *)main);
    dlerror();
}

/* tst-dlinfo */
CASE(info)
{
    void *const library = dlopen(LIBM_SO, RTLD_NOW);
    struct link_map *map = NULL;

    CHECK(library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && strstr(map->l_name, "libm.so"));
    CHECK(((double (*)(double))dlsym(library, "sqrt"))(16.0) == 4.0);
    CHECK(dlopen(LIBM_SO, RTLD_NOW | RTLD_NOLOAD) == library);
    CHECK(dlclose(library) == 0 && dlclose(library) == 0);
}

/* tst-tls-dlclose, tst-create_format: many threads open and close libraries. */
static void *open_and_close(void *arg)
{
    static const char *const names[] = {LIBM_SO, "libresolv.so.2", "libnss_dns.so.2",
                                        "libutil.so.1"};

    for (int i = 0; i < 60; i++) {
        void *const library = dlopen(names[((size_t)i + (uintptr_t)arg) % 4],
                                     i % 2 ? RTLD_NOW : RTLD_LAZY | RTLD_LOCAL);
        CHECK(library && dlsym(library, "malloc"));
        free(malloc(1000));
        CHECK(dlclose(library) == 0);
    }
    return arg;
}

CASE(threads)
{
    run_threads(8, open_and_close);
}

/* tst-dl_iterate_phdr: iterates while other threads open and close libraries. */
static int count_object(struct dl_phdr_info *info, size_t size, void *closure)
{
    free(malloc(100));
    *(int *)closure += info->dlpi_phnum > 0 && size > 0;
    return 0;
}

static void *iterate(void *arg)
{
    for (int i = 0; i < 60; i++) {
        int count = 0;
        dl_iterate_phdr(count_object, &count);
        CHECK(count >= 3);
    }
    return arg;
}

static void *iterate_or_open(void *arg)
{
    return (uintptr_t)arg % 2 ? iterate(arg) : open_and_close(arg);
}

CASE(iterate)
{
    run_threads(8, iterate_or_open);
}

/* tst-dlmopen: a new namespace has its own malloc. */
CASE(namespaces)
{
    void *const library = dlmopen(LM_ID_NEWLM, LIBC_SO, RTLD_NOW);

    CHECK(library);
    void *(*const other_malloc)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
    void (*const other_free)(void *) = (void (*)(void *))dlsym(library, "free");
    CHECK(other_malloc && other_free);
    for (int i = 0; i < 1000; i++) {
        void *const block = other_malloc((size_t)i * 100);
        CHECK(block);
        other_free(block);
    }
    dlclose(library);
}

/* tst-deep1: RTLD_DEEPBIND. */
CASE(deepbind)
{
    void *const library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_DEEPBIND);

    CHECK(library);
    for (int i = 0; i < 100; i++)
        free(strdup("a block of libc's strdup"));
    dlclose(library);
}

/* A destructor and atexit functions allocate. */
static void at_exit(void)
{
    free(malloc(1 << 20));
    puts("at exit");
}

__attribute__((destructor)) static void at_end(void)
{
    free(malloc(1 << 20));
}

CASE(exit_functions)
{
    for (int i = 0; i < 40; i++)
        CHECK(atexit(at_exit) == 0);
}
