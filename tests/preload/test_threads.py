# SPDX-License-Identifier: Apache-2.0
"""pthread_create and the affinity calls: each thread gets its class, and nothing else changes."""

import os
import re

import pytest
from preloadkit import *

WAYS = r"""
static int (*init)(unsigned);
static void start(void) { init = dlsym(driver(), "cuInit"); init(0); }
static void *nothing(void *a) { return a; }
static void join(pthread_t t) { void *r; pthread_join(t, &r); }
static void make(pthread_attr_t *a, void *(*f)(void *)) { pthread_t t; if (pthread_create(&t, a, f, NULL)) exit(8); join(t); }
static cpu_set_t mask_of(int cpu) { cpu_set_t m; CPU_ZERO(&m); CPU_SET(cpu, &m); return m; }
static cpu_set_t now(void) { cpu_set_t m; sched_getaffinity(0, sizeof(m), &m); return m; }
static void set(cpu_set_t m) { if (sched_setaffinity(0, sizeof(m), &m)) exit(7); }
"""

two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


def test_the_programs_threads_are_announced(fed):
    app = fed.program(WAYS + """
        int main(void) { init = dlsym(driver(), "cuInit"); make(NULL, nothing); init(0);
            make(NULL, nothing); make(NULL, nothing); }
        """)
    result = fed.go(app)
    assert said(result, "started") == ["class=0", "class=0"]
    assert counts(result)["pthread_create"] == 3


PROGRAMS = WAYS + r"""
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#define NONE "/no/such/program"
#define END (char *)NULL
static char *const args[] = {(char *)"sh", (char *)"-c", (char *)"exit 5", NULL}, *const env[] = {(char *)"A=1", NULL};
static void say(const char *name, int result) { printf("%s %d %d\n", name, result, errno); fflush(stdout); errno = 0; }
#define FAIL(name, ...) say(#name, name(__VA_ARGS__))
#define RUN(name, ...) do { int status; pid_t pid = vfork(); if (!pid) { name(__VA_ARGS__); _exit(1); } \
    if (waitpid(pid, &status, 0) == pid) say("child of " #name, status); } while (0)
int main(int argc, char **argv)
{
    pid_t pid;
    int status;
    char line[64];
    int shell = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    (void)argv;
    if (argc > 1)
        start();
    errno = 0;
    FAIL(execve, NONE, args, env); FAIL(execv, NONE, args); FAIL(execvp, "no-such", args);
    FAIL(execvpe, "no-such", args, env); FAIL(fexecve, -1, args, env); FAIL(execveat, -1, NONE + 1, args, env, 0);
    FAIL(execl, NONE, "sh", END); FAIL(execlp, "no-such", "sh", END); FAIL(execle, NONE, "sh", END, env);
    FAIL(posix_spawn, &pid, NONE, NULL, NULL, args, env); FAIL(posix_spawnp, &pid, "no-such", NULL, NULL, args, env);
    FAIL(system, NULL); FAIL(system, "exit 3");
    RUN(execve, "/bin/sh", args, env); RUN(execv, "/bin/sh", args); RUN(execvp, "sh", args);
    RUN(execvpe, "sh", args, env); RUN(fexecve, shell, args, env); RUN(execveat, shell, "", args, env, AT_EMPTY_PATH);
    RUN(execl, "/bin/sh", "sh", "-c", "exit $#", "zero", "1", "2", "3", "4", "5", "6", "7", END);
    RUN(execlp, "sh", "sh", "-c", "exit $#", "zero", "1", END);
    RUN(execle, "/bin/sh", "sh", "-c", "exit $((${A:-20} + $#))", "zero", "1", "2", "3", "4", END, env);
    say("posix_spawn", posix_spawn(&pid, "/bin/sh", NULL, NULL, args, env));
    waitpid(pid, &status, 0); say("status", status);
    FILE *pipe = popen("echo $((40 + 2))", "r");
    say(fgets(line, sizeof(line), pipe), 0); say("pclose", pclose(pipe)); say("mode", popen("true", "x") == NULL);
    return 0;
}
"""


def test_programs_that_a_program_starts(fed):
    """Functions that start a program return the same. The engine is called around each one, but not when a program
    replaces its caller; then nothing is left behind in a parent that shares its memory."""
    app = fed.program(PROGRAMS)
    without = fed.go(app, preload=False)
    assert fed.go(app).stdout == without.stdout
    result = fed.go(app, "gpu", GPUFEED_MACHINE="program")
    assert result.stdout == without.stdout
    assert (len(said(result, "program begins")), len(said(result, "program ends"))) == (25, 16)
    found = counts(result)
    twice = "execve", "execveat", "execl", "execlp", "execle", "system", "popen"
    assert {name: found[name] for name in twice} == dict.fromkeys(twice, 2), found


OLD_VERSIONS = r"""
#include <spawn.h>
#include <sys/stat.h>
int old_sched(pid_t, const cpu_set_t *), old_thread(pthread_t, const cpu_set_t *);
int middle_thread(pthread_t, size_t, const cpu_set_t *);
typedef int spawner(pid_t *, const char *, const void *, const void *, char *const[], char *const[]);
spawner old_spawn, old_spawnp;
__asm__(".symver old_sched, sched_setaffinity@GLIBC_2.3.3");
__asm__(".symver old_thread, pthread_setaffinity_np@GLIBC_2.3.3");
__asm__(".symver middle_thread, pthread_setaffinity_np@GLIBC_2.3.4");
__asm__(".symver old_spawn, posix_spawn@GLIBC_2.2.5");
__asm__(".symver old_spawnp, posix_spawnp@GLIBC_2.2.5");
static char *const args[] = {(char *)"script", (char *)"5", NULL};
static void go(spawner *spawn, const char *path) {
    pid_t pid; int status = 0, error = spawn(&pid, path, NULL, NULL, args, NULL);
    if (!error) waitpid(pid, &status, 0);
    printf("%d %d\n", error, WEXITSTATUS(status)); }
int main(int argc, char **argv) {
    cpu_set_t mask; sched_getaffinity(0, sizeof(mask), &mask);
    void *(*volatile at)(void *, const char *) = dlsym;
    printf("%d %d %d %d\n", old_sched(0, &mask), old_thread(pthread_self(), &mask), middle_thread(pthread_self(), sizeof(mask), &mask),
        pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask));
    go(old_spawn, argv[1]); go(old_spawnp, argv[1]); go((spawner *)posix_spawn, argv[1]);
    fputs(owner(at(RTLD_DEFAULT, "pthread_setaffinity_np")), stderr); return 0; }
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="libc has no older versions")
def test_older_versions_of_functions_are_libcs(fed, tmp_path):
    """A program that was built with an old glibc calls versions with fewer arguments, or with which a script needs no "#!"."""
    script = tmp_path / "script"
    script.write_text("exit $1\n")
    script.chmod(0o755)
    app = fed.program(OLD_VERSIONS)
    without, result = fed.go(app, script, preload=False), fed.go(app, script)
    assert result.stdout == without.stdout == "0 0 0 0\n0 5\n0 5\n8 0\n"
    assert without.stderr.endswith("libc.so.6") and result.stderr.endswith("libgpufeed.so")


def test_python_threads(fed):
    result = fed.go("/usr/bin/python3", "-c", """
import ctypes, threading
ctypes.CDLL("libcuda.so.1").cuInit(0)
threads = [threading.Thread(target=sum, args=([1, 2],)) for _ in range(5)]
[t.start() for t in threads]; [t.join() for t in threads]
""")
    assert said(result, "started") == ["class=0"] * 5


def test_our_own_threads(fed):
    result = fed.go(fed.program(WAYS + "int main(void) { start(); }"), GPUFEED_MACHINE="thread")
    assert said(result, "ours") == ["class=3 blocked=1"]
    assert said(result, "library") == ["class=3"]
    assert not said(result, "started")


DRIVER_THREADS = FAKE_DRIVER.replace("int cuInit(unsigned flags)", """
#include <pthread.h>
#include <unistd.h>
static int tid, later_tid, hold[2];
static void *helper(void *where) { *(int *)where = gettid(); char c; read(hold[0], &c, 1); return where; }
static void spawn(int *where) { pthread_t t; *where = 0; pthread_create(&t, NULL, helper, where);
    pthread_detach(t); while (!__atomic_load_n(where, __ATOMIC_ACQUIRE)) usleep(100); }
int fake_thread(void) { return tid; }
int fake_later_thread(void) { spawn(&later_tid); return later_tid; }
int cuInit(unsigned f) { pipe(hold); spawn(&tid); return 0; }
int old_cuInit(unsigned flags)""")
TELL_CLASS = r"""
#include "abi_hash.h"
#include "abi/engine_api.h"
#include <stdio.h>
static const struct gf_preload *preload;
int class_of(int tid) { return preload->thread_class(tid); }
static void seen(CUdevice d, enum gf_sighting h, uint64_t b) {}
static void started(void) { fprintf(stderr, "[started]\n"); }
static void nothing(void) {}
static const struct gf_engine engine = {.abi = GF_ENGINE_ABI, .size = sizeof(engine), .device_seen = seen,
    .joined = nothing, .watch = nothing, .thread_started = started};
GF_EXPORT const struct gf_engine *gf_engine_start(const struct gf_preload *d) { preload = d; return &engine; }
"""
CLASS_OF = r"""
static int class_of(int tid) { return ((int (*)(int))dlsym(dlopen("libgpufeed-engine.so", RTLD_NOW), "class_of"))(tid); }
"""


@pytest.fixture
def classed(kit):
    kit.library(DRIVER_THREADS, "libcuda.so.1", "-Wl,-Bsymbolic")
    kit.library(TELL_CLASS, "libgpufeed-engine.so", *INCLUDES)
    return kit


def test_the_drivers_threads(classed):
    """The driver creates its threads inside cuInit, before the engine is loaded, or later."""
    app = classed.program(WAYS + CLASS_OF + """
        int main(void) { start(); void *h = driver();
            int first = ((int (*)(void))dlsym(h, "fake_thread"))(), later = ((int (*)(void))dlsym(h, "fake_later_thread"))();
            printf("%d %d %d\\n", class_of(first), class_of(later), class_of(gettid())); }
        """)
    result = classed.go(app)
    assert result.stdout == "2 2 0\n"
    assert not said(result, "started")


@two_cpus
def test_who_sets_its_own_mask_is_left_alone(classed):
    app = classed.program(WAYS + CLASS_OF + """
        static int self(void) { return class_of(gettid()); }
        static void *by_itself(void *a) { int b = self(); set(mask_of(0)); printf("%d%d ", b, self()); return a; }
        static void *own(void *a) { printf("%d ", self()); return a; }
        static void *restored(void *a) { cpu_set_t m = now(); set(mask_of(0)); int in = self(); set(mask_of(1));
            set(m); printf("%d%d ", in, self()); return a; }
        static int ready; static pthread_barrier_t b;
        static void *other(void *a) { *(int *)a = gettid(); pthread_barrier_wait(&b); pthread_barrier_wait(&b); return a; }
        int main(void) { cpu_set_t m = mask_of(1), m0 = now(); pthread_attr_t attr; pthread_attr_init(&attr);
            pthread_attr_setaffinity_np(&attr, sizeof(m), &m);
            set(mask_of(0)); start(); printf("%d ", self()); set(m0); printf("%d ", self());
            make(NULL, by_itself); make(&attr, own); make(NULL, restored); make(NULL, own);
            pthread_barrier_init(&b, NULL, 2); pthread_t t; int tid = 0; pthread_create(&t, NULL, other, &tid);
            pthread_barrier_wait(&b); printf("%d", class_of(tid));
            if (pthread_setaffinity_np(t, sizeof(m), &m)) return 3; printf("%d", class_of(tid));
            pthread_setaffinity_np(t, sizeof(m0), &m0); printf("%d", class_of(tid));
            sched_setaffinity(tid, sizeof(m), &m); printf("%d ", class_of(tid));
            pthread_barrier_wait(&b); join(t);
            int status; pid_t child = fork(); if (!child) { pause(); } sched_setaffinity(child, sizeof(m), &m);
            printf("%d\\n", class_of(child)); kill(child, 9); wait(&status); }
        """.replace("static int ready;", ""), "-include", "signal.h")
    assert classed.go(app).stdout == "1 0 01 1 10 0 0101 1\n"


@two_cpus
def test_birth_is_before_the_first_set(kit):
    """The library records the start mask before the hooked call changes the mask."""
    kit.fake()
    kit.library(TELL_CLASS.replace("preload = d;", 'preload = d; unsigned n = 0; for (int i = 0; i < 64; i++)'
                ' n += d->startup->cpus.word[i / 64] >> i & 1; fprintf(stderr, "[birth %d]\\n", n);'),
                "libgpufeed-engine.so", *INCLUDES)
    app = kit.program(WAYS + "extern int cuInit(unsigned); int main(void) { set(mask_of(0)); return cuInit(0); }",
                      f"-L{kit.folder}", "-l:libcuda.so.1")
    # If malloc is libc's own, no code of the library runs before the call.
    assert said(kit.go(app, GPUFEED_HEAP="off"), "birth") == [str(len(os.sched_getaffinity(0)))]


@two_cpus
def test_only_a_success_counts(classed):
    app = classed.program(WAYS + CLASS_OF + """
        static int self(void) { return class_of(gettid()); }
        int main(void) { start(); cpu_set_t m = mask_of(0), none; CPU_ZERO(&none);
            int r; errno = 0; r = sched_setaffinity(0, sizeof(none), &none); printf("%d %d ", r, errno);
            errno = 0; r = sched_setaffinity(999999999, sizeof(m), &m); printf("%d %d ", r, errno);
            errno = 0; r = pthread_setaffinity_np(pthread_self(), sizeof(none), &none); printf("%d %d ", r, errno);
            int before = self();
            errno = 4; r = pthread_setaffinity_np(pthread_self(), sizeof(m), &m); printf("%d %d\\n", r, errno);
            fprintf(stderr, "[class %d %d]\\n", before, self()); }
        """)
    result = classed.go(app)
    assert result.stdout == "-1 22 -1 3 22 0 0 4\n"
    assert said(result, "class") == ["0 1"]


def test_a_recycled_thread_id_starts_anew(classed):
    """In a small pid namespace, ids are reused. Without the right to create one, the table is tested
    directly."""
    app = classed.program(WAYS + CLASS_OF + """
        static int last;
        static void *binder(void *a) { set(now()); last = gettid(); return a; }
        static void *look(void *a) { if (gettid() == last) { printf("again %d\\n", class_of(last)); exit(0); } return a; }
        int main(void) { start(); make(NULL, binder);
            FILE *f = fopen("/proc/sys/kernel/ns_last_pid", "w");
            for (int i = 0; i < 200; i++) {
                if (f) { rewind(f); fprintf(f, "%d", last - 1); fflush(f); }
                make(NULL, look); }
            puts("not again"); }
        """)
    out = classed.go(app).stdout
    if out == "not again\n":
        pytest.skip("thread ids cannot be chosen here (/proc/sys/kernel/ns_last_pid)")
    assert out == "again 0\n"


def test_many_short_threads_that_bind_do_not_fill_the_table(classed):
    app = classed.program(WAYS + CLASS_OF + """
        static void *binder(void *a) { set(now()); set(mask_of(sched_getcpu())); return a; }
        static void *look(void *a) { printf("%d\\n", class_of(gettid())); return a; }
        int main(void) { start(); for (int i = 0; i < 9000; i++) make(NULL, binder); make(NULL, look); }
        """)
    assert classed.go(app).stdout == "0\n"


# --- pthread_create behaves as without the library
def test_return_codes_and_attributes(fed):
    app = fed.program(WAYS + r"""
        #include <limits.h>
        #include <sys/resource.h>
        static void *cancelled(void *a) { pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL); for (;;) pause(); return a; }
        static void *leaves(void *a) { pthread_exit((void *)42); }
        static void note(void *a) { printf("cleaned "); }
        static void *cleans(void *a) { pthread_cleanup_push(note, NULL); pthread_exit((void *)43); pthread_cleanup_pop(0); return a; }
        static void *size(void *a) { pthread_attr_t t; size_t n; pthread_getattr_np(pthread_self(), &t);
            pthread_attr_getstacksize(&t, &n); printf("%zu ", n); pthread_attr_destroy(&t); return a; }
        /* The library enlarges a small stack. */
        static void *enough(void *a) { pthread_attr_t t; size_t n; pthread_getattr_np(pthread_self(), &t);
            pthread_attr_getstacksize(&t, &n); printf("%d ", n >= PTHREAD_STACK_MIN && n <= PTHREAD_STACK_MIN + (16 << 10));
            pthread_attr_destroy(&t); return a; }
        static void *result(void *a) { errno = 3; return (void *)((long)a + 1); }
        int main(void) { start(); pthread_t t; void *r; pthread_attr_t a;
            pthread_create(&t, NULL, cancelled, NULL); pthread_cancel(t); pthread_join(t, &r); printf("%d ", r == PTHREAD_CANCELED);
            pthread_create(&t, NULL, leaves, NULL); pthread_join(t, &r); printf("%ld ", (long)r);
            pthread_create(&t, NULL, cleans, NULL); pthread_join(t, &r); printf("%ld ", (long)r);
            pthread_create(&t, NULL, result, (void *)9); pthread_join(t, &r); printf("%ld ", (long)r);
            pthread_attr_init(&a); pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN); make(&a, enough);
            pthread_attr_setstacksize(&a, 1 << 20); make(&a, size);
            pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED); pthread_create(&t, &a, nothing, NULL);
            pthread_attr_setinheritsched(&a, PTHREAD_EXPLICIT_SCHED); struct sched_param p = {200};
            cpu_set_t none; CPU_ZERO(&none); pthread_attr_setaffinity_np(&a, sizeof(none), &none);
            errno = 6; printf("%d ", pthread_create(&t, &a, nothing, NULL)); printf("%d\n", errno);
            fflush(stdout); return 0; }
        """)
    out = fed.same(app).stdout
    assert out.startswith("1 42 cleaned 43 10 ")


def test_thread_limit(fed):
    """If the kernel refuses, pthread_create fails with the same error, and nothing is left over."""
    app = fed.program(WAYS + r"""
        #include <sys/resource.h>
        #include <malloc.h>
        int main(void) { start(); pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 1ul << 46);
            pthread_t t; printf("%d\n", pthread_create(&t, &a, nothing, NULL)); }
        """)
    assert fed.same(app).stdout == "11\n"


def test_no_hook_is_a_cancellation_point(fed):
    """The engine writes and sleeps inside hooks. If the original is not a cancellation point, the hook must not be
    one either."""
    app = fed.program(WAYS + r"""
        static volatile int went_on;
        static void *calls(void *a) {
            int (*retain)(void **, int) = dlsym(driver(), "cuDevicePrimaryCtxRetain"); void *context;
            pthread_cancel(pthread_self()); init(0); went_on++; retain(&context, 0); went_on++;
            pthread_testcancel(); went_on++; return a; }
        static void *shielded(void *a) { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); went_on += 10; return a; }
        int main(void) { init = dlsym(driver(), "cuInit"); pthread_t t; void *r;
            pthread_create(&t, NULL, calls, NULL); pthread_join(t, &r); printf("%d ", r == PTHREAD_CANCELED);
            pthread_create(&t, NULL, shielded, NULL); pthread_cancel(t); pthread_join(t, &r);
            printf("%d %d\n", r == PTHREAD_CANCELED, went_on); }
        """)
    result = fed.same(app, GPUFEED_MACHINE="slow")
    assert result.stdout == "1 0 12\n"
    assert said(result, "engine") and said(result, "started")


@two_cpus
@pytest.mark.parametrize("machine, shared", [("one arena", 1), ("", 0)])
def test_new_threads_use_the_arenas_that_the_engine_allows(fed, machine, shared):
    """A block that the main thread freed is reused by a thread of the same arena, at its own
    offset. The pool of kept mappings serves larger blocks, for all arenas."""
    app = fed.program(WAYS + """
        static void *allocates(void *a) { return (void *)((long)malloc(3 << 20) >> 12 == (long)a >> 12 ? 1L : 0L); }
        int main(void) {
            void *r = NULL;
            start();
            for (int i = 0; i < TRIES && !r; usleep(50000), i++) {
                void *p = malloc(3 << 20); free(p);
                pthread_t t; pthread_create(&t, NULL, allocates, p); pthread_join(t, &r);
            }
            printf("%ld", (long)r);
        }
        """.replace("TRIES", "200" if shared else "5"))
    # A thread of the library may take a part of the freed block first, as it shares the main thread's arena. On a machine under
    # load, the engine decides after cuInit has returned.
    assert fed.go(app, GPUFEED_MACHINE=machine).stdout == str(shared)


def test_start_routine_is_a_tail_call(fed):
    """In the new thread's stack, libc's frames directly call the program's routine, as they would without the
    library."""
    app = fed.program(WAYS + r"""
        #include <execinfo.h>
        static void *deep(void *a) { void *at[20]; int n = backtrace(at, 20); printf("%d %s\n", n, owner(at[1])); return a; }
        int main(void) { start(); make(NULL, deep); }
        """, "-O0", "-fno-omit-frame-pointer", "-rdynamic")
    assert fed.same(app).stdout.endswith("libc.so.6\n")


def test_without_an_engine_it_is_passed_straight_on(run, compile_c):
    app = compile_c(r"""
        #include <pthread.h>
        #include <stdio.h>
        static void *f(void *a) { return a; }
        int main(void) { for (long i = 0; i < 100; i++) { pthread_t t; void *r; pthread_create(&t, 0, f, (void *)i);
            pthread_join(t, &r); if ((long)r != i) return 1; } puts("ok"); }""", name="plain")
    without, with_library = run.both(app)
    assert (without.stdout, without.stderr) == (with_library.stdout, with_library.stderr) == ("ok\n", "")


def test_threads_from_constructors_and_in_children(fed):
    app = fed.program(WAYS + """
        static pthread_t early;
        static __attribute__((constructor)) void first(void) { pthread_create(&early, NULL, nothing, NULL); }
        int main(void) { join(early); start(); fflush(stdout);
            if (fork() == 0) { make(NULL, nothing); make(NULL, nothing); _exit(0); }
            int status; wait(&status); printf("%d\\n", status); }
        """)
    result = fed.go(app)
    assert result.stdout == "0\n"
    assert not said(result, "started")


def test_the_drivers_threads_share_the_main_threads_arena(run, compile_c):
    """Each arena costs every fork of the process a dozen pages."""
    program = compile_c(r"""
        #include <cuda.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void allocate(void *unused) { free(malloc(100)); }
        int main(void)
        {
            CUdevice device = 0;
            CUcontext context;
            CUstream streams[6];
            if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
                return 1;
            for (int i = 0; i < 6; i++)
                if (cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) ||
                    cuLaunchHostFunc(streams[i], allocate, NULL))
                    return 2;
            usleep(100000);
            return cuCtxSynchronize();
        }""", "-fno-builtin", *INCLUDES, f"-L{SIM_DIR}", "-l:libcuda.so.1", name="streams")
    # The library's sampler asks the driver from its own thread, so the first query may allocate, too.
    result = run(program, sim=True, MALLOC_CONF="narenas:16,stats_print:true,stats_print_opts:bl")
    assert result.returncode == 0, result.stderr
    assert re.findall(r"^arenas\[(\d+)\]", result.stderr, re.M) == ["0"]


def test_the_drivers_threads_make_no_arena_beside_threads_of_fewer_arenas(kit):
    """When a thread changes its arena by thread.arena, jemalloc counts it in the new arena for the program's
    allocations, and in the old one for internal allocations."""
    kit.library(DRIVER_THREADS, "libcuda.so.1")
    kit.engine()
    app = kit.program(WAYS + r"""
        static int there;
        static void *waits(void *hold) { free(malloc(100)); __atomic_fetch_add(&there, 1, __ATOMIC_RELEASE);
            read(*(int *)hold, &hold, 1); return NULL; }
        int main(int argc, char **argv) { start(); int hold[2]; pthread_t t[3]; (void)argv;
            if (pipe(hold)) return 3;
            for (int i = 0; i < 3; i++) { pthread_create(&t[i], NULL, waits, hold);
                while (__atomic_load_n(&there, __ATOMIC_ACQUIRE) <= i) usleep(100); }
            if (argc > 1) ((int (*)(void))dlsym(driver(), "fake_later_thread"))(); }
        """, "-fno-builtin")
    arenas = [re.findall(r"^arenas\[(\d+)\]", kit.go(app, *more, GPUFEED_MACHINE="one arena",
                         MALLOC_CONF="narenas:16,stats_print:true,stats_print_opts:bl").stderr, re.M)
              for more in ([], ["more"])]
    assert arenas[0] and arenas[0] == arenas[1]
