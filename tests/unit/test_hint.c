/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "host/hint.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct gf_hint sample(void)
{
    struct gf_hint hint = {.pid = 4711, .policy = MPOL_PREFERRED};
    gf_set_parse("0-15", &hint.was);
    gf_set_parse("8-15", &hint.set);
    gf_set_parse("1", &hint.nodes);
    return hint;
}

static void written_and_read_back(void **state)
{
    (void)state;
    const struct gf_hint hint = sample();
    struct gf_hint back;
    char text[256];
    assert_true(gf_hint_format(&hint, text, sizeof(text)) > 0);
    assert_string_equal(text,
                        "GPUFEED_BOUND=v1;pid=4711;was=0-15;set=8-15;policy=preferred;nodes=1");
    assert_int_equal(gf_hint_parse(strchr(text, '=') + 1, &back), 0);
    assert_memory_equal(&hint, &back, sizeof(hint));
}

static void longest_lists_fit(void **state)
{
    (void)state;
    struct gf_hint hint = {.pid = 1}, back;
    for (unsigned cpu = 0; cpu < GF_CPUS_MAX; cpu += 2) {
        gf_set_add(&hint.was, cpu);
        gf_set_add(&hint.set, cpu);
    }
    char *text = malloc(GF_HINT_MAX);
    assert_true(gf_hint_format(&hint, text, GF_HINT_MAX) > 0);
    assert_int_equal(gf_hint_parse(strchr(text, '=') + 1, &back), 0);
    assert_memory_equal(&hint, &back, sizeof(hint));
    assert_int_equal(gf_hint_format(&hint, text, 5000), -ENOSPC);
    assert_int_equal(gf_hint_format(&hint, text, 16), -ENOSPC);
    free(text);
}

static void damaged_ones_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "v1",
        "v2;pid=1;was=0-1;set=0;policy=default;nodes=",
        "v1;pid=1;was=0-1;set=0;policy=default",
        "v1;pid=1;was=0-1;set=0;policy=default;nodes=;more=1",
        "v1;pid=1;set=0;was=0-1;policy=default;nodes=",
        "v1;pid=x;was=0-1;set=0;policy=default;nodes=",
        "v1;pid=1;was=;set=0;policy=default;nodes=",
        "v1;pid=1;was=0-1;set=;policy=default;nodes=",
        "v1;pid=1;was=0-1;set=0;policy=preferred;nodes=",
        "v1;pid=1;was=0-1;set=0;policy=default;nodes=1",
        "v1;pid=1;was=0-1;set=0-99999;policy=default;nodes=",
        "v1;pid=1;was=0-1;set=0;policy=odd;nodes=1",
    };
    for (size_t i = 0; i < GF_ARRAY_LEN(bad); i++) {
        struct gf_hint hint = {.pid = 99};
        assert_int_equal(gf_hint_parse(bad[i], &hint), -EINVAL);
        assert_int_equal(hint.pid, 99);
    }
    struct gf_hint hint;
    assert_int_equal(gf_hint_parse("v1;pid=1;was=0-1;set=0;policy=default;nodes=", &hint), 0);
}

static unsigned count_hints(void)
{
    unsigned count = 0;
    for (char **entry = environ; *entry; entry++)
        count += strncmp(*entry, "GPUFEED_BOUND=", 14) == 0;
    return count;
}

static void published_once_beside_the_others(void **state)
{
    (void)state;
    struct gf_hint hint = sample(), back;
    setenv("ANOTHER", "one", 1);
    char **old = environ;
    assert_int_equal(gf_hint_read(environ, &back), -ENOENT);
    gf_hint_publish(&hint);
    assert_ptr_not_equal(environ, old);
    assert_non_null(old[0]); /* the old vector stays: a reader may be walking it */
    hint.pid = 4712;
    gf_hint_publish(&hint);
    assert_int_equal(count_hints(), 1);
    assert_int_equal(gf_hint_read(environ, &back), 0);
    assert_int_equal(back.pid, 4712);
    assert_string_equal(getenv("ANOTHER"), "one");
    /* setenv works on the new vector */
    setenv("LATER", "two", 1);
    assert_string_equal(getenv("LATER"), "two");
    gf_hint_publish(NULL);
    assert_int_equal(count_hints(), 0);
    assert_string_equal(getenv("LATER"), "two");
    char **kept = environ;
    environ = NULL; /* as clearenv leaves it */
    gf_hint_publish(&hint);
    assert_int_equal(gf_hint_read(environ, &back), 0);
    environ = kept;
}

/*
 * The environment of the test below has three entries. The last one is on another page than the first
 * two, so a fault shows that the copy has passed these.
 */
static struct {
    char **vector;
    bool may_fault;
} shared;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    if (shared.may_fault && size == 5 * sizeof(char *)) { /* the copy, with the new entry */
        shared.may_fault = false;
        mprotect(shared.vector + 2, 4096, PROT_NONE);
    }
    return __real_malloc(size);
}

/* As another thread's setenv, changes an entry that was copied already. */
static void change_entry(int number)
{
    (void)number;
    shared.vector[0] = (char *)"CHANGED=new";
    mprotect(shared.vector + 2, 4096, PROT_READ | PROT_WRITE);
}

static void a_change_during_the_copy_is_kept(void **state)
{
    const struct sigaction action = {.sa_handler = change_entry};
    struct sigaction before;
    char **kept = environ;
    const struct gf_hint hint = sample();
    (void)state;
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    shared.vector = (char **)(void *)(pages + 4096) - 2;
    shared.vector[0] = (char *)"CHANGED=old";
    shared.vector[1] = (char *)"SECOND=2";
    shared.vector[2] = (char *)"THIRD=3";
    shared.may_fault = true;
    environ = shared.vector;
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    gf_hint_publish(&hint);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_false(shared.may_fault);
    assert_string_equal(getenv("CHANGED"), "new");
    assert_string_equal(getenv("THIRD"), "3");
    assert_int_equal(count_hints(), 1);
    environ = kept;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read_back),
        cmocka_unit_test(longest_lists_fit),
        cmocka_unit_test(damaged_ones_are_refused),
        cmocka_unit_test(published_once_beside_the_others),
        cmocka_unit_test(a_change_during_the_copy_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
