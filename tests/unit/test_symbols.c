/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/loader.h"
#include "base/symbols.h"

#include <dlfcn.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#if defined(__aarch64__)
#define MACHINE_IS_AARCH64 1
#else
#define MACHINE_IS_AARCH64 0
#endif

/* These definitions precede libc's, like those of the preload library. */
GF_EXPORT size_t malloc_usable_size(void *block)
{
    (void)block;
    return 0;
}

static void agrees_with_dlsym(void **state)
{
    (void)state;
    static const char *const names[] = {"malloc",  "free",          "dlsym", "pthread_create",
                                        "pvalloc", "__libc_malloc", "getpid"};
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        struct gf_symbol found;
        assert_true(gf_symbol_find(names[i], NULL, &found));
        assert_ptr_equal(found.address, dlsym(RTLD_DEFAULT, names[i]));
        assert_non_null(strstr(found.object, "libc.so.6"));
    }
}

static void next_is_behind_the_caller(void **state)
{
    (void)state;
    struct gf_symbol found;
    assert_true(gf_symbol_find("malloc_usable_size", NULL, &found));
    assert_ptr_equal(found.address, (void *)malloc_usable_size);
    assert_string_equal(found.object, "");
    assert_true(gf_symbol_find("malloc_usable_size", (void *)malloc_usable_size, &found));
    assert_ptr_equal(found.address, dlsym(RTLD_NEXT, "malloc_usable_size"));
}

static void compat_and_missing_names_are_not_found(void **state)
{
    (void)state;
    struct gf_symbol found;
    assert_false(gf_symbol_find("cfree", NULL, &found));
    assert_false(gf_symbol_find("gf_no_such_function", NULL, &found));
    assert_false(gf_symbol_find("malloc", dlsym(RTLD_DEFAULT, "malloc"), &found));
}

static void libc_by_the_loaders_list(void **state)
{
    (void)state;
    struct gf_symbol object;
    assert_true(gf_symbol_holder(dlsym(RTLD_DEFAULT, "getpid"), &object));
    assert_int_equal(gf_libc_base(), object.base);
    assert_ptr_equal(gf_libc_early_next("malloc_usable_size"),
                     dlsym(RTLD_NEXT, "malloc_usable_size"));
    assert_null(gf_libc_early_next("gf_no_such_function"));
}

static void versions_of_an_object(void **state)
{
    (void)state;
    struct gf_object libc;
    const struct link_map *map = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    assert_true(gf_object_read(map->l_addr, map->l_ld, &libc));
    assert_string_equal(libc.soname, "libc.so.6");
    /* ELF hashes of GLIBC_2.2.5 (aarch64: 2.17), of GLIBC_2.34, and of a version that is not there. */
    const uint32_t first = MACHINE_IS_AARCH64 ? 0x06969197 : 0x09691a75;
    assert_true(gf_object_version(&libc, first) >= 2);
    assert_true(gf_object_version(&libc, 0x069691b4) > gf_object_version(&libc, first));
    assert_int_equal(gf_object_version(&libc, 0x12345678), 0);
    const ElfW(Sym) *old = gf_object_find(&libc, "pthread_join", gf_object_version(&libc, first));
    const ElfW(Sym) *now = gf_object_find(&libc, "pthread_join", 0);
    assert_non_null(old);
    assert_ptr_not_equal(old, now);
    assert_int_equal(old->st_value, now->st_value);
}

static void objects_by_address(void **state)
{
    (void)state;
    struct gf_symbol object, in;
    assert_true(gf_symbol_holder(dlsym(RTLD_DEFAULT, "getpid"), &object));
    assert_true(gf_symbol_find_in(object.base, "malloc_usable_size", &in));
    assert_ptr_equal(in.address, dlsym(RTLD_NEXT, "malloc_usable_size"));
    assert_false(gf_symbol_holder(&object, &in));
    assert_false(gf_symbol_find_in(0, "getpid", &in)); /* no library is at address 0 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_dlsym),
        cmocka_unit_test(next_is_behind_the_caller),
        cmocka_unit_test(compat_and_missing_names_are_not_found),
        cmocka_unit_test(libc_by_the_loaders_list),
        cmocka_unit_test(versions_of_an_object),
        cmocka_unit_test(objects_by_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
