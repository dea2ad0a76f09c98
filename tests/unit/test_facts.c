/* SPDX-License-Identifier: Apache-2.0 */
#include "placing.h"
#include "temp_root.h"

#include "os/cgroup.h"
#include "host/facts.h"
#include "host/mempolicy.h"
#include "host/tasks.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const no_environment[] = {NULL};

static struct gf_facts gather(const char *folder, const char *const *envp, const char *start)
{
    struct gf_cpus mask = cpus_of(start);
    struct gf_facts facts;
    gf_facts_gather(folder, (char *const *)(uintptr_t)envp, &mask, &facts);
    return facts;
}

static struct gf_rank rank_of(const char *const *envp)
{
    return gather(GF_TEST_MACHINES "/container", envp, "0").rank;
}

static void reads_a_container(void **state)
{
    (void)state;
    const struct gf_facts facts =
        gather(GF_TEST_MACHINES "/container", no_environment, "0-7,56-59");

    assert_set(&facts.cpuset, "0-7,56-59");
    assert_set(&facts.mems, "0");
    assert_true(facts.cpu_quota == 6.0);
    assert_int_equal(facts.threads, 7);
    assert_true(facts.numa_balancing);
    assert_int_equal(facts.start_policy, -ENOSYS);
    assert_null(facts.binder_source);
    assert_null(facts.pinning_source);
    assert_int_equal(facts.rank.local_rank, -1);
    assert_true(gf_cgroup_throttled_ns(GF_TEST_MACHINES "/container") == 2500 * 1000);
}

static void assumes_all_online_without_a_cgroup(void **state)
{
    (void)state;
    const struct gf_facts facts = gather(GF_TEST_MACHINES "/split16", no_environment, "0-3");

    assert_set(&facts.cpuset, "0-15");
    assert_true(facts.cpu_quota == 0);
    assert_false(facts.numa_balancing);
}

static void nested_groups(void **state)
{
    (void)state;
    put(root, "proc/self/cgroup", "0::/jobs/42\n");
    put(root, "sys/devices/system/cpu/online", "0-15\n");
    put(root, "sys/devices/system/cpu/isolated", "14-15\n");
    put(root, "sys/fs/cgroup/jobs/cpuset.cpus.effective", "4-15\n");
    put(root, "sys/fs/cgroup/jobs/cpu.max", "200000 100000\n");
    put(root, "sys/fs/cgroup/jobs/42/cpu.max", "max 100000\n");
    struct gf_facts facts = gather(root, no_environment, "4-13");
    /*
     * The parent group's cpuset and quota apply. By default a mask lacks the isolated CPUs, so the
     * cpuset excludes them.
     */
    assert_set(&facts.cpuset, "4-13");
    assert_set(&facts.isolated, "14-15");
    assert_true(facts.cpu_quota == 2.0);
    put(root, "sys/fs/cgroup/jobs/42/cpu.max", "150000 100000\n");
    assert_true(gather(root, no_environment, "4-15").cpu_quota == 1.5);
    facts = gather(root, no_environment, "4-15");
    assert_set(&facts.cpuset, "4-15");
    assert_set(&facts.isolated, "");
}

static void version_one_groups(void **state)
{
    (void)state;
    /*
     * Without a cgroup namespace the path is the host's, but the process's own group is mounted at
     * the top.
     */
    put(root, "proc/self/cgroup",
        "7:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n0::/\n");
    put(root, "sys/devices/system/cpu/online", "0-15");
    put(root, "sys/fs/cgroup/cpuset/cpuset.cpus", "0-3");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 3\nthrottled_time 77\n");
    struct gf_facts facts = gather(root, no_environment, "0-3");
    assert_set(&facts.cpuset, "0-3");
    assert_true(facts.cpu_quota == 0.5);
    assert_true(gf_cgroup_throttled_ns(root) == 77);
    put(root, "sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-2");
    facts = gather(root, no_environment, "0-2");
    assert_set(&facts.cpuset, "0-2");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
    assert_true(gather(root, no_environment, "0-3").cpu_quota == 0);
}

static void nothing_to_read(void **state)
{
    (void)state;
    const struct gf_facts facts = gather(root, no_environment, "3-5");
    assert_set(&facts.cpuset, "3-5");
    assert_set(&facts.mems, "");
    assert_true(gf_cgroup_throttled_ns(root) == 0);
}

static void servers_that_bind_their_workers(void **state)
{
    (void)state;
    char path[64];

    snprintf(path, sizeof(path), "%s/proc/self/cmdline", root);
    put(root, "proc/self/cmdline", "");
    FILE *file = fopen(path, "w");
    fwrite("python\0-m\0vllm\0--numa-bind\0", 1, 27, file);
    fclose(file);
    assert_string_equal(gather(root, no_environment, "0").binder_source, "--numa-bind");
    file = fopen(path, "w");
    fwrite("torchrun\0--numa-binding=node\0", 1, 29, file);
    fclose(file);
    assert_string_equal(gather(root, no_environment, "0").binder_source, "--numa-binding");
    file = fopen(path, "w");
    fwrite("python\0--numa-bindings-demo\0", 1, 28, file);
    fclose(file);
    assert_null(gather(root, no_environment, "0").binder_source);
}

static void ranks_of_each_launcher(void **state)
{
    (void)state;
    const struct {
        const char *source;
        int local_rank, local_size, rank;
        const char *envp[8];
    } rows[] = {
        {"torchrun",
         3,
         8,
         11,
         {"LOCAL_RANK=3", "LOCAL_WORLD_SIZE=8", "RANK=11", "SLURM_LOCALID=0",
          "SLURM_NTASKS_PER_NODE=1"}},
        {"Slurm",
         2,
         4,
         6,
         {"SLURM_LOCALID=2", "SLURM_NTASKS=8", "SLURM_STEP_TASKS_PER_NODE=4(x2)",
          "SLURM_PROCID=6"}},
        {"Slurm", 1, 4, -1, {"SLURM_LOCALID=1", "SLURM_NTASKS_PER_NODE=4"}},
        {"Slurm", 1, -1, 1, {"SLURM_LOCALID=1", "SLURM_TASKS_PER_NODE=4,2", "SLURM_PROCID=1"}},
        {"Open MPI",
         1,
         2,
         1,
         {"OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
          "OMPI_COMM_WORLD_RANK=1"}},
        {"MPICH", 0, 2, 2, {"MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2", "PMI_RANK=2"}},
        {"MVAPICH",
         1,
         2,
         1,
         {"MV2_COMM_WORLD_LOCAL_RANK=1", "MV2_COMM_WORLD_LOCAL_SIZE=2", "MV2_COMM_WORLD_RANK=1"}},
        /* A complete set of variables has precedence over a set with only the rank. */
        {"Open MPI",
         1,
         2,
         -1,
         {"LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2"}},
        {"torchrun", 5, -1, -1, {"LOCAL_RANK=5"}},
        {"torchrun", 5, -1, -1, {"LOCAL_RANK=5", "LOCAL_WORLD_SIZE=4"}},
        {NULL, -1, -1, -1, {"LOCAL_RANK=x", "LOCAL_WORLD_SIZE=8", "RANK=1"}},
        {NULL, -1, -1, -1, {"LOCAL_RANK=-1", "MY_LOCAL_RANK=2"}},
    };
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        const struct gf_rank rank = rank_of(rows[i].envp);
        assert_int_equal(rank.local_rank, rows[i].local_rank);
        assert_int_equal(rank.local_size, rows[i].local_size);
        assert_int_equal(rank.rank, rows[i].rank);
        if (rows[i].source)
            assert_string_equal(rank.source, rows[i].source);
        else
            assert_null(rank.source);
    }
}

static void who_pins_and_binds(void **state)
{
    (void)state;
    static const char *const pins[] = {
        "OMP_PROC_BIND=close",   "OMP_PLACES=cores",
        "GOMP_CPU_AFFINITY=0-3", "KMP_AFFINITY=granularity=fine,compact",
        "I_MPI_PIN=1",           "I_MPI_PIN_DOMAIN=omp",
        "MV2_ENABLE_AFFINITY=1"};
    static const char *const pins_not[] = {
        "OMP_PROC_BIND=false", "OMP_PROC_BIND=FALSE", "KMP_AFFINITY=disabled",
        "KMP_AFFINITY=none",   "I_MPI_PIN=0",         "OMP_NUM_THREADS=4",
        "MKL_NUM_THREADS=4",   "OMP_PLACES=",         "MY_OMP_PLACES=cores"};
    for (size_t i = 0; i < GF_ARRAY_LEN(pins); i++) {
        const char *envp[] = {"A=b", pins[i], NULL};
        const struct gf_facts facts = gather(root, envp, "0");
        assert_int_equal(strncmp(facts.pinning_source, pins[i], strlen(facts.pinning_source)), 0);
        assert_null(facts.binder_source);
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(pins_not); i++) {
        const char *envp[] = {pins_not[i], NULL};
        assert_null(gather(root, envp, "0").pinning_source);
    }
    static const char *const binders[] = {
        "ACCELERATE_CPU_AFFINITY=true", "TLLM_NUMA_AWARE_WORKER_AFFINITY=1",
        "SGLANG_AUTO_NUMA_BIND=1", "NRL_GPU_CPU_AFFINITY_FILE=/tmp/x"};
    for (size_t i = 0; i < GF_ARRAY_LEN(binders); i++) {
        const char *envp[] = {binders[i], NULL};
        assert_non_null(gather(root, envp, "0").binder_source);
    }
    static const char *const off[] = {"ACCELERATE_CPU_AFFINITY=0",
                                      "TLLM_NUMA_AWARE_WORKER_AFFINITY=0", NULL};
    assert_null(gather(root, off, "0").binder_source);
}

static void this_process(void **state)
{
    (void)state;
    struct gf_cpus start = {0};
    struct gf_facts facts;

    assert_int_equal(sched_getaffinity(0, sizeof(start), (cpu_set_t *)&start), 0);
    gf_facts_gather("", environ, &start, &facts);
    assert_true(gf_set_within(&start, &facts.cpuset));
    assert_false(gf_set_empty(&facts.mems));
    assert_int_equal(facts.threads, 1);
    assert_true(facts.start_policy == GF_MPOL_DEFAULT || facts.start_policy < 0);
}

/*
 * Gathers the facts in a mount namespace without /sys/fs/cgroup. Returns 0 if the cpuset came from
 * the kernel, and 2 to skip the test.
 */
static int gather_without_cgroups(const struct gf_cpus *all)
{
    struct gf_cpus one = {0}, after;
    struct gf_facts facts;

    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/sys/fs/cgroup", "tmpfs", 0, NULL))
        return 2;
    gf_set_add(&one, (unsigned)gf_set_next(all, 0));
    if (gf_tasks_set_mask(0, &one))
        return 2;
    gf_facts_gather("", environ, &one, &facts);
    if (gf_tasks_get_mask(0, &after) || !gf_set_equal(&after, &one))
        return 3;
    return gf_set_equal(&facts.cpuset, all) ? 0 : 1;
}

static void asks_the_kernel_without_cgroups(void **state)
{
    (void)state;
    struct gf_cpus all;
    struct gf_facts facts;
    int status = 0;

    assert_int_equal(gf_tasks_get_mask(0, &all), 0);
    gf_facts_gather("", environ, &all, &facts);
    if (!gf_set_equal(&all, &facts.cpuset))
        skip_because("this test itself runs under a narrowed mask");
    const pid_t pid = fork();
    if (pid == 0)
        _exit(gather_without_cgroups(&all));
    waitpid(pid, &status, 0);
    if (WEXITSTATUS(status) == 2)
        skip_because("may not mount here");
    assert_int_equal(status, 0);
}

struct lookout {
    pid_t tid;
    struct gf_cpus all, mask;
    bool wider, stop;
};

static void *look_out(void *arg)
{
    struct lookout *lookout = arg;
    struct gf_cpus now;

    gf_tasks_set_mask(0, &lookout->all);
    while (!__atomic_load_n(&lookout->stop, __ATOMIC_ACQUIRE))
        if (gf_tasks_get_mask(lookout->tid, &now) == 0 && !gf_set_equal(&now, &lookout->mask))
            lookout->wider = true;
    return NULL;
}

static volatile sig_atomic_t children_ended;

static void child_ended(int number)
{
    (void)number;
    children_ended = 1;
}

/*
 * Gathering never widens the mask, not even briefly. A thread that starts at that moment would
 * inherit the wider mask.
 */
static void asking_widens_no_mask(void **state)
{
    (void)state;
    struct gf_cpus all, allowed = {0};
    struct lookout lookout = {.tid = gettid()};
    sigset_t before, after;
    pthread_t thread;

#ifdef __SANITIZE_THREAD__
    skip_because("its run-time takes any clone for a fork, and lets no thread be made after it");
#endif
    assert_int_equal(gf_tasks_get_mask(0, &all), 0);
    if (gf_set_count(&all) < 2)
        skip_because("nothing to narrow");
    assert_int_equal(gf_allowed_cpus(&allowed), 0);
    assert_true(gf_set_within(&all, &allowed));
    gf_set_add(&lookout.mask, (unsigned)gf_set_next(&all, 0));
    signal(SIGCHLD, child_ended);
    sigprocmask(SIG_SETMASK, NULL, &before);
    lookout.all = all;
    assert_int_equal(gf_tasks_set_mask(0, &lookout.mask), 0);
    assert_int_equal(pthread_create(&thread, NULL, look_out, &lookout), 0);
    for (int i = 0; i < 2000; i++) {
        struct gf_cpus again = {0};
        errno = 42;
        assert_int_equal(gf_allowed_cpus(&again), 0);
        assert_int_equal(errno, 42);
        assert_true(gf_set_equal(&again, &allowed));
    }
    __atomic_store_n(&lookout.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    gf_tasks_set_mask(0, &all);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_false(lookout.wider);
    assert_false(children_ended);
    assert_memory_equal(&before, &after, 8); /* the part of the mask that the kernel writes */
    assert_int_equal(waitpid(-1, NULL, __WALL), -1);
}

static void probes_in_a_child(void **state)
{
    (void)state;
    struct gf_cpus start = {0}, after = {0};
    struct gf_probe probe;
    const int policy = gf_mempolicy_get();

    assert_int_equal(sched_getaffinity(0, sizeof(start), (cpu_set_t *)&start), 0);
    gf_probe_run(0, &start, &probe);
    assert_int_equal(probe.set_affinity, 0);
    /*
     * No machine has node 1000, so the kernel itself refuses it. A seccomp profile would refuse
     * every node.
     */
    if (probe.set_mempolicy == 0) {
        gf_probe_run(1000, &start, &probe);
        assert_int_equal(probe.set_mempolicy, EINVAL);
        assert_int_equal(probe.mbind, EINVAL);
    }
    const struct gf_cpus nowhere = cpus_of("4000");
    gf_probe_run(0, &nowhere, &probe);
    assert_int_equal(probe.set_affinity, EINVAL);
    assert_int_equal(sched_getaffinity(0, sizeof(after), (cpu_set_t *)&after), 0);
    assert_true(gf_set_equal(&start, &after));
    assert_int_equal(gf_mempolicy_get(), policy);
}

static void asks_without_setting_anything(void **state)
{
    struct gf_nodes nodes = {{1}}, after;
    const char *call = NULL;
    int mode;

    (void)state;
    const bool may = gf_mempolicy_set(GF_MPOL_PREFERRED, &nodes) == 0;
    assert_int_equal(gf_mempolicy_refusal(&call) == 0, may);
    assert_non_null(call);
    if (!may)
        return;
    assert_true(gf_mempolicy_read(&mode, &after));
    assert_int_equal(mode, GF_MPOL_PREFERRED);
    assert_true(gf_set_equal(&nodes, &after));
    gf_mempolicy_set(GF_MPOL_DEFAULT, NULL);
}

static void remedies(void **state)
{
    (void)state;
    assert_non_null(gf_probe_remedy(EPERM));
    assert_null(gf_probe_remedy(ENOMEM));
}

static void moves_a_range(void **state)
{
    (void)state;
    const size_t size = 5 << 20;
    const struct gf_nodes node0 = {{1}};

    if (gf_mempolicy_get() < 0)
        skip_because("the calls are refused here, or the kernel has no NUMA");
    char *range = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(range, MAP_FAILED);
    memset(range, 7, size);
    assert_int_equal(gf_mempolicy_move_range(range, size, GF_MPOL_PREFERRED, &node0), 0);
    assert_int_equal(range[size - 1], 7);
    assert_int_equal(gf_mempolicy_set_range(range, size, GF_MPOL_DEFAULT, NULL), 0);
    munmap(range, size);
    errno = 42;
    assert_int_equal(gf_mempolicy_move_range(range, size, GF_MPOL_PREFERRED, &node0), -EFAULT);
    assert_int_equal(errno, 42);
    assert_int_equal(gf_mempolicy_set(GF_MPOL_PREFERRED, &node0), 0);
    assert_int_equal(gf_mempolicy_get(), GF_MPOL_PREFERRED);
    const struct gf_facts facts = gather("", no_environment, "0");
    assert_int_equal(facts.start_policy, GF_MPOL_PREFERRED);
    assert_set(&facts.start_policy_nodes, "0");
    assert_int_equal(gf_mempolicy_set(GF_MPOL_DEFAULT, NULL), 0);
    assert_int_equal(gf_mempolicy_get(), GF_MPOL_DEFAULT);
}

static unsigned threads_of(const char *start, const char *bound, double quota, int ranks)
{
    struct gf_cpus from, to;

    assert_int_equal(gf_set_parse(start, &from), 0);
    assert_int_equal(gf_set_parse(bound, &to), 0);
    return gf_facts_thread_count(&from, &to, quota, ranks);
}

static void shares_threads_among_ranks(void **state)
{
    (void)state;
    assert_int_equal(threads_of("0-15", "0-15", 0, -1), 16);
    assert_int_equal(threads_of("0-15", "0-15", 0, 4), 4);
    assert_int_equal(threads_of("0-15", "0-15", 6.5, 1), 6);
    assert_int_equal(threads_of("0-15", "0-15", 6.5, 4), 1);
    assert_int_equal(threads_of("0-15", "0-7", 0, 1), 8);
    assert_int_equal(threads_of("0-15", "0-7", 0, 4), 4);
    assert_int_equal(threads_of("0-1", "0-1", 0.5, 8), 1);
}

#define IN_ROOT(function) cmocka_unit_test_setup_teardown(function, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_container),
        cmocka_unit_test(assumes_all_online_without_a_cgroup),
        IN_ROOT(nested_groups),
        IN_ROOT(version_one_groups),
        IN_ROOT(nothing_to_read),
        IN_ROOT(servers_that_bind_their_workers),
        cmocka_unit_test(ranks_of_each_launcher),
        IN_ROOT(who_pins_and_binds),
        cmocka_unit_test(this_process),
        cmocka_unit_test(asks_the_kernel_without_cgroups),
        cmocka_unit_test(asking_widens_no_mask),
        cmocka_unit_test(probes_in_a_child),
        cmocka_unit_test(asks_without_setting_anything),
        cmocka_unit_test(shares_threads_among_ranks),
        cmocka_unit_test(remedies),
        cmocka_unit_test(moves_a_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
