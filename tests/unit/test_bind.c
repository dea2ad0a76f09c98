/* SPDX-License-Identifier: Apache-2.0 */
#include "placing.h"

#include "host/tasks.h"
#include "host/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 12

static struct gf_cpus all, first, second;
static pid_t tids[THREADS];
static pthread_t threads[THREADS];
static sem_t started, ended;

static void *wait_for_end(void *arg)
{
    *(pid_t *)arg = (pid_t)syscall(SYS_gettid);
    sem_post(&started);
    sem_wait(&ended);
    return NULL;
}

static int start_threads(void **state)
{
    (void)state;
    sem_init(&started, 0, 0);
    sem_init(&ended, 0, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, wait_for_end, &tids[i]);
    for (int i = 0; i < THREADS; i++)
        sem_wait(&started);
    return 0;
}

static int end_threads(void **state)
{
    (void)state;
    for (int i = 0; i < THREADS; i++)
        sem_post(&ended);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        await_end_of(tids[i]);
    }
    return gf_tasks_set_mask(0, &all);
}

static void assert_mask(pid_t tid, const struct gf_cpus *mask)
{
    struct gf_cpus got;
    assert_int_equal(gf_tasks_get_mask(tid, &got), 0);
    assert_true(gf_set_equal(&got, mask));
}

static void binds_every_thread(void **state)
{
    (void)state;
    const struct gf_bind_scope scope = {.from = all, .to = first};
    struct gf_bind_result result;

    errno = EILSEQ;
    gf_bind_apply(&scope, &result);
    assert_int_equal(errno, EILSEQ);
    assert_int_equal(result.bound, THREADS + 1);
    assert_int_equal(result.left + result.failed + result.descendants, 0);
    for (int i = 0; i < THREADS; i++)
        assert_mask(tids[i], &first);
    assert_mask(getpid(), &first);
    /* A second call has the same result and changes nothing. */
    gf_bind_apply(&scope, &result);
    assert_int_equal(result.bound, THREADS + 1);
    /* Widens the masks again, as the guard does. */
    gf_bind_apply(&(struct gf_bind_scope){.from = first, .to = all}, &result);
    assert_int_equal(result.bound, THREADS + 1);
    assert_mask(tids[0], &all);
}

static enum gf_thread_class own_mask_of_third(pid_t tid)
{
    return tid == tids[3] ? gf_thread_self_set : gf_thread_program;
}

static enum gf_thread_class third_of_library(pid_t tid)
{
    return tid == tids[3] ? gf_thread_ours : gf_thread_program;
}

static void leaves_other_masks_alone(void **state)
{
    (void)state;
    const struct gf_bind_scope scope = {.from = all, .to = first, .owner = own_mask_of_third};
    struct gf_bind_result result;

    gf_tasks_set_mask(tids[0], &second);
    gf_bind_apply(&scope, &result);
    assert_int_equal(result.bound, THREADS - 1);
    assert_int_equal(result.left, 2);
    assert_mask(tids[0], &second);
    assert_mask(tids[3], &all);
}

static void changes_uncounted_threads(void **state)
{
    (void)state;
    const struct gf_bind_scope scope = {.from = all, .to = first, .owner = third_of_library};
    struct gf_bind_result result;

    gf_bind_apply(&scope, &result);
    assert_int_equal(result.bound, THREADS);
    assert_int_equal(result.left, 1);
    assert_mask(tids[3], &first);
}

static void reports_what_the_kernel_refuses(void **state)
{
    (void)state;
    const struct gf_bind_scope scope = {.from = all, .to = cpus_of("4000")};
    struct gf_bind_result result;

    gf_bind_apply(&scope, &result);
    assert_int_equal(result.bound, 0);
    assert_int_equal(result.failed, THREADS + 1);
    assert_int_equal(result.error, EINVAL);
    assert_mask(tids[0], &all);
    /* More CPUs than the machine has: the kernel sets fewer, which counts as a failure. */
    struct gf_bind_scope wide = {.from = all, .to = first};
    gf_set_add(&wide.to, 4000);
    gf_bind_apply(&wide, &result);
    assert_int_equal(result.bound, 0);
    assert_int_equal(result.error, EXDEV);
}

/* A child that may fork a grandchild, and then waits until the pipe is closed. */
static pid_t spawn(pid_t *shared, const int *hold, bool grandchild, const char *map)
{
    const pid_t pid = fork();
    if (pid)
        return pid;
    close(hold[1]);
    if (map) {
        const int fd = open(map, O_RDONLY);
        mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    char byte;
    if (grandchild && (shared[0] = fork()) == 0) {
        __atomic_store_n(&shared[1], 1, __ATOMIC_RELEASE);
        _exit((int)read(hold[0], &byte, 1));
    }
    __atomic_fetch_add(&shared[2], 1, __ATOMIC_RELEASE);
    _exit((int)read(hold[0], &byte, 1));
}

static void binds_descendants_without_cuda(void **state)
{
    (void)state;
    char path[] = "/tmp/gpufeed-libcuda.so.1-XXXXXX";
    struct gf_bind_scope scope = {.from = all, .to = first, .descendants = true};
    struct gf_bind_result result;
    int hold[2];
    pid_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const int fd = mkstemp(path);

    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(pipe(hold), 0);
    const pid_t worker = spawn(shared, hold, true, NULL);
    const pid_t own_mask = spawn(shared, hold, false, NULL);
    const pid_t with_cuda = spawn(shared, hold, false, path);
    while (__atomic_load_n(&shared[2], __ATOMIC_ACQUIRE) < 3 ||
           !__atomic_load_n(&shared[1], __ATOMIC_ACQUIRE))
        sched_yield();
    gf_tasks_set_mask(own_mask, &second);
    gf_bind_apply(&scope, &result);
    assert_mask(worker, &first);
    assert_mask(shared[0], &first); /* the worker's own child */
    assert_mask(own_mask, &second);
    assert_mask(with_cuda, &all);
    assert_int_equal(result.descendants, 2);
    scope.from = first;
    scope.to = all;
    scope.descendants = false;
    gf_bind_apply(&scope, &result);
    assert_mask(worker, &first);
    assert_int_equal(result.descendants, 0);
    close(hold[0]);
    close(hold[1]);
    for (int i = 0; i < 3; i++)
        wait(NULL);
    close(fd);
    unlink(path);
    munmap(shared, 4096);
}

/*
 * A child forked after its parent's cuInit has libcuda mapped, but cannot use CUDA. So it is not
 * bound.
 */
static void binds_children_that_inherited_cuda(void **state)
{
    (void)state;
    char path[] = "/tmp/gpufeed-libcuda.so.1-XXXXXX";
    struct gf_bind_scope scope = {.from = all, .to = first, .descendants = true};
    struct gf_bind_result result;
    int hold[2];
    pid_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const int fd = mkstemp(path);

    assert_int_equal(write(fd, "x", 1), 1);
    void *ours = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_int_equal(pipe(hold), 0);
    const uint64_t now = gf_tasks_now();
    const pid_t worker = spawn(shared, hold, false, NULL);
    while (__atomic_load_n(&shared[2], __ATOMIC_ACQUIRE) < 1)
        sched_yield();
    /* The parent has not called cuInit, so the child may use CUDA. */
    gf_bind_apply(&scope, &result);
    assert_mask(worker, &all);
    scope.cuda_since = now + 1000000; /* the parent called cuInit after the fork */
    gf_bind_apply(&scope, &result);
    assert_mask(worker, &all);
    scope.cuda_since = now;
    gf_bind_apply(&scope, &result);
    assert_mask(worker, &first);
    assert_int_equal(result.descendants, 1);
    close(hold[0]);
    close(hold[1]);
    wait(NULL);
    close(fd);
    unlink(path);
    munmap(ours, 1);
    munmap(shared, 4096);
}

static int *starts_stop;

static void *have_children(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(starts_stop, __ATOMIC_ACQUIRE)) {
        pthread_t thread;
        pid_t tid;
        if (pthread_create(&thread, NULL, wait_for_end, &tid) == 0) {
            sem_wait(&started);
            sem_post(&ended);
            pthread_join(thread, NULL);
        }
    }
    return NULL;
}

static void *just_end(void *arg)
{
    (void)arg;
    struct gf_cpus mask;
    assert_int_equal(gf_tasks_get_mask(0, &mask), 0);
    return (void *)(uintptr_t)gf_set_equal(&mask, &first);
}

/* A new thread inherits its creator's mask, whether the creator is bound before or after. */
static void threads_started_meanwhile(void **state)
{
    (void)state;
    const struct gf_bind_scope scope = {.from = all, .to = first};
    struct gf_bind_result result;
    pthread_t parent, late;
    void *bound;
    int stop = 0;

    sem_init(&started, 0, 0);
    sem_init(&ended, 0, 0);
    starts_stop = &stop;
    pthread_create(&parent, NULL, have_children, NULL);
    gf_bind_apply(&scope, &result);
    assert_int_equal(result.failed, 0);
    pthread_create(&late, NULL, just_end, NULL);
    pthread_join(late, &bound);
    assert_non_null(bound);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(parent, NULL);
    gf_tasks_set_mask(0, &all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(binds_every_thread, start_threads, end_threads),
        cmocka_unit_test_setup_teardown(leaves_other_masks_alone, start_threads, end_threads),
        cmocka_unit_test_setup_teardown(changes_uncounted_threads, start_threads, end_threads),
        cmocka_unit_test_setup_teardown(reports_what_the_kernel_refuses, start_threads,
                                        end_threads),
        cmocka_unit_test_setup_teardown(binds_descendants_without_cuda, start_threads, end_threads),
        cmocka_unit_test_setup_teardown(binds_children_that_inherited_cuda, start_threads,
                                        end_threads),
        cmocka_unit_test(threads_started_meanwhile),
    };
    int cpu;

    if (gf_tasks_get_mask(0, &all) || gf_set_count(&all) < 2) {
        puts("1..0 # SKIP one CPU: there is no narrower mask");
        return 0;
    }
    gf_set_add(&first, (unsigned)(cpu = gf_set_next(&all, 0)));
    gf_set_add(&second, (unsigned)gf_set_next(&all, (unsigned)cpu + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
