/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and facts for the tests of src/host. */
#ifndef GF_TESTS_PLACING_H
#define GF_TESTS_PLACING_H

#include "unit.h"

#include "config/options.h"
#include "host/facts.h"
#include "host/machine.h"
#include "host/machine_load.h"

#include <stdio.h>
#include <string.h>

static inline struct gf_machine *load_machine(const char *name)
{
    char path[1024];
    struct gf_machine *machine = NULL;
    snprintf(path, sizeof(path), GF_TEST_MACHINES "/%s", name);
    assert_int_equal(gf_machine_load(path, &machine), 0);
    return machine;
}

static inline struct gf_cpus cpus_of(const char *list)
{
    struct gf_cpus cpus;
    assert_int_equal(gf_set_parse(list, &cpus), 0);
    return cpus;
}

#define assert_set(set, list)                                                                      \
    do {                                                                                           \
        char shown_[4096];                                                                         \
        assert_string_equal(gf_set_format((set), shown_, sizeof(shown_)), (list));                 \
    } while (0)

#endif
