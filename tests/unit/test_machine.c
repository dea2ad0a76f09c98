/* SPDX-License-Identifier: Apache-2.0 */
#include "placing.h"
#include "host/machine_load.h"
#include "host/machine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void reads_two_sockets(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("dual8");
    struct gf_cpus package;

    assert_true(machine->recorded);
    assert_int_equal(machine->node_count, 2);
    assert_int_equal(machine->core_count, 112);
    assert_int_equal(machine->gpu_count, 8);
    assert_set(&machine->online, "0-223");
    assert_set(&machine->nodes[1].cpus, "56-111,168-223");
    assert_int_equal(machine->nodes[1].package, 1);
    assert_true(machine->nodes[1].memory_bytes == UINT64_C(1024) << 30);
    assert_false(machine->nodes[1].is_device);
    assert_set(&machine->cores[3].cpus, "3,115");
    assert_string_equal(machine->gpus[0].bdf, "0000:1b:00.0");
    assert_int_equal(machine->gpus[7].numa_node, 1);
    assert_set(&machine->gpus[7].cpus, "56-111,168-223");
    assert_int_equal(gf_machine_distance(machine, 0, 1), 32);
    assert_int_equal(gf_machine_distance(machine, 0, 5), 0);
    gf_machine_package_cpus(machine, 0, &package);
    assert_set(&package, "0-55,112-167");
    gf_machine_free(machine);
}

static void reads_nodes_without_cpus(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("grace");

    assert_int_equal(machine->node_count, 4);
    assert_int_equal(machine->nodes[3].id, 10);
    assert_true(machine->nodes[3].is_device && machine->nodes[3].is_gpu);
    assert_int_equal(machine->nodes[3].package, -1);
    assert_false(gf_machine_node(machine, 1)->is_device);
    assert_null(gf_machine_node(machine, 3));
    assert_int_equal(gf_machine_distance(machine, 10, 1), 20);
    gf_machine_free(machine);
}

static void reads_packages_of_small_nodes(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("snc4");
    struct gf_cpus package;

    assert_int_equal(machine->node_count, 8);
    assert_int_equal(gf_machine_node(machine, 5)->package, 1);
    gf_machine_package_cpus(machine, 1, &package);
    assert_set(&package, "32-63,96-127");
    gf_machine_free(machine);
}

static void finds_devices_in_any_spelling(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("split16");
    const struct gf_pci *pci = gf_pci_gpu(machine, "00000000:00:06.0");

    assert_non_null(pci);
    assert_string_equal(pci->bdf, "0000:00:06.0");
    assert_int_equal(pci->numa_node, 1);
    assert_non_null(gf_pci_gpu(machine, "0:0:6.0"));
    assert_int_equal(gf_pci_add(machine, GF_TEST_MACHINES "/split16", "0000:00:07.0"), -ENOENT);
    static const char *const bad[] = {
        "", "06.0", "0000:00:06", "0000:00:06.0x", "0000:00:20.0", "-1:0:6.0"};
    for (size_t i = 0; i < GF_ARRAY_LEN(bad); i++)
        assert_int_equal(gf_pci_add(machine, GF_TEST_MACHINES "/split16", bad[i]), -ENOENT);
    gf_machine_free(machine);
}

static void adds_a_device_that_is_no_gpu(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("split16");

    /* A device can also come from another recorded machine. */
    assert_int_equal(gf_pci_add(machine, GF_TEST_MACHINES "/dual8", "0000:1B:00.0"), 0);
    assert_int_equal(gf_pci_add(machine, GF_TEST_MACHINES "/dual8", "0000:1b:00.0"), 0);
    assert_int_equal(machine->gpu_count, 2);
    assert_int_equal(gf_pci_gpu(machine, "0000:1b:00.0")->numa_node, 0);
    assert_int_equal(gf_pci_add(machine, GF_TEST_MACHINES "/dual8", "0000:ff:00.0"), -ENOENT);
    gf_machine_free(machine);
}

static void refuses_what_is_no_machine(void **state)
{
    (void)state;
    struct gf_machine *machine = NULL;
    assert_true(gf_machine_load("/nonexistent", &machine) < 0);
    assert_null(machine);
}

static bool maps_hold(const char *needle)
{
    static char text[1 << 20];
    const int fd = open("/proc/self/maps", O_RDONLY);
    size_t at = 0;
    ssize_t got;
    while ((got = read(fd, text + at, sizeof(text) - 1 - at)) > 0)
        at += (size_t)got;
    text[at] = '\0';
    close(fd);
    return strstr(text, needle) != NULL;
}

static unsigned opened;

/*
 * Replaces dlopen to record its paths, because a plugin may be closed again before the test can
 * look for it.
 */
GF_EXPORT void *dlopen(const char *path, int flags)
{
    void *(*real)(const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    opened++;
    return real(path, flags);
}

/*
 * Variables HWLOC_* are meant for the program's own hwloc. The private copy ignores them, and loads
 * no plugin.
 */
static void loads_this_machine_unseen(void **state)
{
    (void)state;
    static const char *const strangers[] = {"/hwloc/", "OpenCL",  "pciaccess",   "libxml2",
                                            "libX11",  "libudev", "libhwloc.so", "libnuma.so"};
    struct gf_machine *machine;
    cpu_set_t before, after;

    setenv("HWLOC_FSROOT", "/nonexistent", 1);
    setenv("HWLOC_SYNTHETIC", "package:3 core:3 pu:1", 1);
    setenv("HWLOC_COMPONENTS", "opencl,gl,pci,stop", 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    sched_getaffinity(0, sizeof(before), &before);
    assert_int_equal(gf_machine_load(NULL, &machine), 0);
    sched_getaffinity(0, sizeof(after), &after);
    assert_true(CPU_EQUAL(&before, &after));
    for (size_t i = 0; i < GF_ARRAY_LEN(strangers); i++)
        assert_false(maps_hold(strangers[i]));
    assert_int_equal(opened, 0);
    assert_true(maps_hold("libgfhwloc.so"));
    assert_false(machine->recorded);
    assert_int_equal(gf_set_count(&machine->online), sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(machine->node_count >= 1 && machine->core_count >= 1);
    assert_true(machine->nodes[0].memory_bytes > 0);
    gf_machine_free(machine);
}

/* A program that later loads the public hwloc gets that library, with its plugins. */
static void leaves_the_public_names_alone(void **state)
{
    (void)state;
    struct gf_machine *machine;
    unsigned (*version)(void);

    assert_int_equal(gf_machine_load(NULL, &machine), 0);
    assert_null(dlsym(RTLD_DEFAULT, "hwloc_topology_init"));
    assert_null(dlsym(RTLD_DEFAULT, "numa_available"));
    assert_null(dlopen("libhwloc.so.15", RTLD_NOW | RTLD_NOLOAD));
    void *hwloc = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_GLOBAL);
    if (!hwloc)
        skip_because("only the copy is installed");
    assert_true(maps_hold("libhwloc.so.15"));
    *(void **)&version = dlsym(hwloc, "hwloc_get_api_version");
    assert_true(version() >= 0x20000);
    void *numa = dlopen("libnuma.so.1", RTLD_NOW | RTLD_GLOBAL);
    assert_true(!numa || maps_hold("libnuma.so.1"));
    gf_machine_free(machine);
    /* The private copy also works while the public one is in the global scope. */
    assert_int_equal(gf_machine_load(NULL, &machine), 0);
    gf_machine_free(machine);
}

static void records_what_it_can_load(void **state)
{
    (void)state;
    char folder[] = "/tmp/gpufeed-record-XXXXXX", path[256], command[256];
    struct gf_machine *here, *copy;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a/b", folder);
    assert_int_equal(gf_record_machine(path), 0);
    assert_int_equal(gf_machine_load(NULL, &here), 0);
    assert_int_equal(gf_machine_load(path, &copy), 0);
    assert_true(copy->recorded);
    assert_true(gf_set_equal(&here->online, &copy->online));
    assert_int_equal(here->node_count, copy->node_count);
    assert_int_equal(here->core_count, copy->core_count);
    assert_memory_equal(here->cores, copy->cores, here->core_count * sizeof(*here->cores));
    for (size_t i = 0; i < here->node_count; i++) {
        assert_int_equal(here->nodes[i].id, copy->nodes[i].id);
        assert_true(gf_set_equal(&here->nodes[i].cpus, &copy->nodes[i].cpus));
        assert_true(here->nodes[i].memory_bytes == copy->nodes[i].memory_bytes);
    }
    assert_int_equal(here->gpu_count, copy->gpu_count);
    gf_machine_free(here);
    gf_machine_free(copy);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_true(gf_record_machine("/proc/gpufeed") < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_two_sockets),
        cmocka_unit_test(reads_nodes_without_cpus),
        cmocka_unit_test(reads_packages_of_small_nodes),
        cmocka_unit_test(finds_devices_in_any_spelling),
        cmocka_unit_test(adds_a_device_that_is_no_gpu),
        cmocka_unit_test(refuses_what_is_no_machine),
        cmocka_unit_test(loads_this_machine_unseen),
        cmocka_unit_test(leaves_the_public_names_alone),
        cmocka_unit_test(records_what_it_can_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
