# SPDX-License-Identifier: Apache-2.0
"""The cost of a fork: counts of copied pages and of mappings, never times."""

import platform

import pytest

from conftest import APPS, SIM_DIR, rounds
from preloadkit import CUDA

MIB = 1 << 20


@pytest.fixture
def forks(run):
    """forks(what, ...): the program's numbers, without the library and with it."""
    def go(*what, **extra):
        found = []
        for done in run.both(APPS / "forks", *what, sim=True, GPUFEED_STAGE_THREADS=10, **extra):
            assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
            found.append([int(word) for word in done.stdout.split()])
        return found
    return go


def test_with_one_thread_takes_no_lock_of_the_heap(forks):
    """jemalloc's forty locks of an arena cost 12 pages in the parent, and 26 in the child. Without them the child has 9 to
    13 more than natively, depending on where variables lie."""
    (native, native_child), (ours, child) = forks("alone")
    assert ours <= native + 6 and child <= native_child + 18


@pytest.mark.parametrize("what", [["busy"], ["busy", "gpu"]])
def test_with_threads_leaves_no_lock_to_the_child(run, what):
    """The child can allocate even if other threads were inside malloc during the fork."""
    native, ours = run.both(APPS / "forks", *what, sim=True)
    assert (native.returncode, native.stdout) == (0, "60\n")
    assert (ours.returncode, ours.stdout) == (0, "60\n"), ours.stderr


def test_our_threads_have_no_arenas(forks):
    """The library has ten threads here. If each had its own arena, a fork would copy 110 pages instead of 20."""
    (native, _), (ours, _) = forks("pinned", 1, 64 * MIB, MALLOC_CONF="narenas:16")
    assert ours <= native + 40


HANDLERS = """
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void allocate(void) {
    static void *volatile block[3000];
    for (int i = 0; i < 3000; i++) block[i] = malloc(20000);
    for (int i = 0; i < 3000; i++) free(block[i]);
}
static void fork_too(void) {
    static int forking;
    allocate();
    if (forking++ == 0) { if (!fork()) _exit(0); wait(NULL); }
    forking--;
}
static void *idle(void *arg) { for (;;) pause(); return arg; }
int main(int argc, char **argv) {
    pthread_t thread;
    CUcontext context;
    pthread_atfork(fork_too, allocate, allocate);
    if (argc > 1 && (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))) return 1;
    pthread_create(&thread, NULL, idle, NULL);
    alarm(20);
    for (int i = 0; i < 5; i++) { int status; if (!fork()) _exit(0); wait(&status); if (status) return 2; }
    puts("forked");
    _exit(fflush(stdout));
}
"""


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
def test_earlier_handlers_may_allocate_and_fork(run, compile_c, gpu):
    """The heap registers its handlers before the program's first."""
    program = compile_c(HANDLERS, "-isystem", CUDA, SIM_DIR / "libcuda.so.1", "-pthread")
    for done in run.both(program, *gpu, sim=True):
        assert (done.returncode, done.stdout) == (0, "forked\n"), done.stderr


KEYS = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>
static void *use(void *arg) { free(malloc(1 << 20)); return arg; }
int main(int argc, char **argv) {
    pthread_key_t key;
    pthread_t thread;
    int status;
    for (int i = 0; i < atoi(argv[argc - 1]); i++) CREATE(&key, free);
    alarm(20);
    pthread_create(&thread, NULL, use, NULL);
    pthread_setspecific(key, malloc(100));
    if (!fork()) { use(NULL); _exit(3); }
    return wait(&status) < 0 || status != 3 << 8 || pthread_join(thread, NULL);
}
"""


@pytest.mark.parametrize("create", ["pthread_key_create", "tss_create"])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 500])
def test_after_many_thread_specific_keys(run, compile_c, count, create):
    """From 32 keys on, libc allocates memory for their values, also for the key of jemalloc at its start."""
    program = compile_c(KEYS, "-pthread", f"-DCREATE={create}")
    for done in run.both(program, count):
        assert (done.returncode, done.stderr) == (0, ""), done


WAITING_HANDLERS = """
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t programs = PTHREAD_MUTEX_INITIALIZER;
static char where;
static int inside;
static void *allocate(void *arg) {
    static void *volatile block[3000];
    for (int i = 0; i < 3000; i++) block[i] = malloc(20000);
    for (int i = 0; i < 3000; i++) free(block[i]);
    return arg;
}
static void in(char here) {
    pthread_t thread;
    if (where == here && (pthread_create(&thread, NULL, allocate, NULL) || pthread_join(thread, NULL))) _exit(9);
}
static void before(void) { alarm(20); in('b'); if (where == 'l') pthread_mutex_lock(&programs); }
static void parent(void) { in('p'); if (where == 'l') pthread_mutex_unlock(&programs); }
static void child(void) { alarm(20); in('c'); if (where == 'l') pthread_mutex_unlock(&programs); }
static void *hold(void *arg) {
    for (;; usleep(100)) {
        pthread_mutex_lock(&programs);
        __atomic_store_n(&inside, 1, 5);
        usleep(2000);
        allocate(NULL);
        __atomic_store_n(&inside, 0, 5);
        pthread_mutex_unlock(&programs);
    }
    return arg;
}
static void *idle(void *arg) { for (;;) pause(); return arg; }
int main(int argc, char **argv) {
    pthread_t thread;
    CUcontext context;
    where = *argv[1];
    pthread_atfork(before, parent, child);
    if (argc > 2 && (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))) return 1;
    pthread_create(&thread, NULL, where == 'l' ? hold : idle, NULL);
    for (int i = 0; i < 5; i++) {
        int status;
        while (where == 'l' && !__atomic_load_n(&inside, 5)) usleep(10);
        if (!fork()) { if (where != 'l') allocate(NULL); _exit(0); }
        wait(&status);
        if (status) return 2;
    }
    puts("forked");
    _exit(fflush(stdout));
}
"""


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
@pytest.mark.parametrize("where", ["before", "parent", "child", "lock"])
def test_earlier_handlers_may_wait_for_threads_that_allocate(run, compile_c, where, gpu):
    """In parent or child, the handler starts the thread, or takes a lock that the thread holds."""
    program = compile_c(WAITING_HANDLERS, "-isystem", CUDA, SIM_DIR / "libcuda.so.1", "-pthread")
    for done in run.both(program, where, *gpu, sim=True):
        assert (done.returncode, done.stdout) == (0, "forked\n"), done.stderr


REGISTERING = """
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *registers(void *arg) {
    for (int i = 0; i < 400; i++) pthread_atfork(0, 0, 0);
    return arg;
}
static void *allocates(void *arg) { for (;;) free(malloc(200000)); return arg; }
static void forks(void) {
    pthread_t thread, other;
    alarm(10);
    pthread_create(&other, NULL, allocates, NULL);
    pthread_create(&thread, NULL, registers, NULL);
    for (int i = 0; i < 20; i++) {
        if (!fork()) _exit(0);
        wait(NULL);
    }
    pthread_join(thread, NULL);
    _exit(0);
}
int main(void) {
    int hung = 0, status;
    for (int i = 0; i < 40; i++) pthread_atfork(0, 0, 0);
    for (int i = 0; i < ROUNDS && !hung; i++) {
        if (!fork()) forks();
        wait(&status);
        hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    }
    puts(hung ? "hung" : "forked");
    return fflush(stdout);
}
"""


def test_a_thread_may_register_handlers_beside_forks(run, compile_c):
    """libc's list of handlers grows by malloc, with its lock held. A fork takes that lock after the
    heap's handler. Only a hang fails the test: glibc 2.36 moves the list while it walks it, so one
    process in hundreds crashes natively, too."""
    done = run(compile_c(REGISTERING, "-pthread", f"-DROUNDS={rounds(200, 60)}"))
    assert (done.returncode, done.stdout) == (0, "forked\n"), done.stderr


PATCHED = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;
static pid_t child;
static void end_child(int number) {
    (void)number;
    kill(child, SIGKILL);
}
static void lock(void) { pthread_mutex_lock(&cache); }
static void unlock(void) { pthread_mutex_unlock(&cache); }
static int heard(void *at, size_t size, int advice) {
    lock();
    unlock();
    return (int)syscall(SYS_madvise, at, size, advice);
}
static void patch(void) { /* mov $heard, %r11; jmp *%r11 */
    unsigned char code[] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3}, *at = (unsigned char *)madvise;
    const size_t to = (size_t)heard;
    memcpy(code + 2, &to, sizeof(to));
    mprotect((void *)((size_t)at & -4096UL), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(at, code, sizeof(code));
}
int main(void) {
    void *volatile block;
    int status = 0;
    patch();
    pthread_atfork(lock, unlock, unlock);
    block = malloc(5 << 20);
    memset(block, 1, 5 << 20);
    free(block);
    signal(SIGALRM, end_child);
    child = fork();
    if (!child) {
        lock();
        _exit(7);
    }
    alarm(10);
    wait(&status);
    printf("%d\n", status);
    return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program writes x86-64 code")
def test_a_child_calls_no_monitor_before_its_handlers(run, compile_c):
    """A memory monitor's lock is free in the child only after the monitor's own handler has run. The heap's handler runs
    before, and hung in the monitor."""
    native, ours = run.both(compile_c(PATCHED, "-fno-builtin", "-pthread", name="patched"), timeout=60)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, native.stdout, "")


RESOLVER = """
#include <pthread.h>
static int runs;
static void handler(void) { runs++; }
static int answer(void) { return 42; }
static void *resolve(void) { pthread_atfork(handler, handler, handler); return answer; }
int chosen(void) __attribute__((ifunc("resolve")));
int count_runs(void) { return runs; }
"""
RESOLVED = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int chosen(void);
int count_runs(void);
int main(void) {
    int status;
    if (chosen() != 42) return 1;
    free(malloc(1));
    if (!fork()) _exit(count_runs());
    wait(&status);
    printf("%d %d\\n", count_runs(), WEXITSTATUS(status));
}
"""


@pytest.mark.parametrize("caller", ["library", "program", "own program"])
def test_a_resolver_may_register_handlers(run, compile_c, caller):
    """In a library the resolver runs before preloaded objects are relocated; in a program, before
    thread-local variables exist."""
    if caller == "own program":
        program = compile_c(RESOLVER + RESOLVED)
    else:
        libraries = [compile_c(RESOLVER, "-shared", "-fPIC", name="libresolver.so")]
        if caller == "library":
            libraries.append(compile_c("int chosen(void); int inside(void) { return chosen(); }", "-shared", "-fPIC",
                                       libraries[0], "-Wl,-z,now", name="libcaller.so"))
        source = RESOLVED.replace("chosen", "inside") if caller == "library" else RESOLVED
        program = compile_c(source, "-Wl,--no-as-needed", *libraries, "-Wl,-z,now")
    for done in run.both(program):
        assert (done.returncode, done.stdout, done.stderr) == (0, "2 2\n", ""), done


def test_beside_a_gpu_copies_few_pages(forks):
    """The parent releases the locks of two arenas, each of which has nine pages of locks."""
    (native, _), (ours, _) = forks("pinned", 1, 64 * MIB)
    assert ours <= native + 24


def test_a_buffer_has_few_mappings(forks):
    """The driver's buffer has one mapping. The library's has one for each 32 MiB, and at most one
    for each thread."""
    (native,), (ours,) = forks("mappings", 4, 64 * MIB)
    assert native == 4 and 4 <= ours <= 8


def test_our_files_have_few_mappings(run):
    """Code with read-only data, relocated data, and data: three mappings instead of five. The
    same holds for the bundled libraries.."""
    said = run("/usr/bin/python3", "-c", """if True:
        import collections, ctypes
        ctypes.CDLL("libcuda.so.1").cuInit(0)
        mapped = collections.Counter(line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps")
                                     if "/libgf" in line or "/libgpufeed" in line)
        print(len(mapped), max(mapped.values()))""", sim=True)
    assert said.stdout.split() == ["5", "3"], (said.stdout, said.stderr)
