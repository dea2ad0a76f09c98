# SPDX-License-Identifier: Apache-2.0
"""How the engine is loaded: on the library's thread, so that the program never waits for the
loader."""

import pytest
from conftest import SIM_DIR
from preloadkit import *
from test_engine import NODE0, NODE1, feed, machine, verdict_lines

ACTIVE = r"""
static void until_active(void) {
    int (*active)(void) = dlsym(RTLD_DEFAULT, "gpufeed_active");
    for (int i = 0; active && !active() && i < 10000; i++) usleep(1000);
}
"""

LINKED = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
static void *init(void *arg) { return cuInit(0) ? arg : NULL; }
static void context(void) { void *c; if (cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) abort(); }
static void joining(void)
{
    pthread_t thread; void *failed;
    pthread_create(&thread, NULL, init, "failed");
    pthread_join(thread, &failed);
    if (failed) abort();
}
static void forking(void) { int s; if (fork() == 0) _exit(cuInit(0) > 99); wait(&s); if (s) abort(); }
__attribute__((constructor)) static void begin(void) { %s }
"""


@pytest.mark.parametrize("devices", [NODE1, f"{NODE1},{NODE0}"])
@pytest.mark.parametrize("way", ["joining(); context();", "cuInit(0); context();",
                                 "cuInit(0); context(); forking();"])
def test_a_constructor_under_the_loaders_lock(feed, compile_c, way, devices):
    """The loader's lock is held by the thread in cuInit, or by a thread that waits for it. The engine is loaded once
    the lock is free."""
    library = compile_c(LINKED % way, "-shared", "-fPIC", f"{SIM_DIR}/libcuda.so.1", name="libmine.so")
    found = feed(f"""
        active = ctypes.CDLL(None).gpufeed_active
        ctypes.CDLL({str(library)!r})
        assert wait_for(active)
        init()
        allocate(8)
        assert mask() == [1], mask()
    """, devices=devices, timeout=20)
    assert len(verdict_lines(found)) == 1
    assert "gpufeed: after" in found.stderr


def test_a_constructor_races_eight_threads(fed):
    fed.library(LINKED % "cuInit(0);", "libmine.so", f"-L{fed.folder}", "-l:libcuda.so.1")
    app = fed.program(ACTIVE + r"""
        static int (*init)(unsigned); static pthread_barrier_t all;
        static void *go(void *a) { pthread_barrier_wait(&all); return init(0) ? NULL : a; }
        int main(void) { init = dlsym(driver(), "cuInit"); pthread_t t[8]; void *r;
            pthread_barrier_init(&all, NULL, 9);
            for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, go, "ok");
            pthread_barrier_wait(&all);
            if (!dlopen("libmine.so", RTLD_NOW)) return 1;
            for (int i = 0; i < 8; i++) if (pthread_join(t[i], &r) || !r) return 2;
            until_active(); }
        """)
    for _ in range(200):
        assert len(said(fed.go(app, timeout=20), "engine")) == 1


LOADER = r"""
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
extern int back;
void *dlopen(const char *name, int flags) {
    void *(*real)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
    struct timespec begun, now;
    if (!name && flags & RTLD_NOLOAD) {
        clock_gettime(CLOCK_MONOTONIC, &begun);
        do { %s; clock_gettime(CLOCK_MONOTONIC, &now); }
        while (%s);
    }
    return real(name, flags);
}
"""


@pytest.mark.parametrize("meanwhile, until, there", [
    ("", "(now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < 300", 1),
    ("usleep(1000)", "!__atomic_load_n(&back, __ATOMIC_ACQUIRE)", 0)], ids=["runs", "sleeps"])
def test_who_is_kept_from_running_is_waited_for(fed, meanwhile, until, there):
    """cuInit waits while the library's thread, which loads the engine, uses a CPU. It does not wait while that thread
    sleeps."""
    spy = fed.library(LOADER % (meanwhile, until), "libspy.so")
    app = fed.program(ACTIVE + r"""
        int back;
        int main(void) { int (*init)(unsigned) = dlsym(driver(), "cuInit"), (*active)(void) = dlsym(RTLD_DEFAULT, "gpufeed_active");
            int result = init(0), there = active();
            __atomic_store_n(&back, 1, __ATOMIC_RELEASE);
            until_active();
            printf("%d %d %d\n", result, there, active()); }
        """, "-rdynamic")
    assert fed.go(app, LD_PRELOAD=f"{PRELOAD}:{spy}", timeout=30).stdout == f"0 {there} 1\n"


FORKS = ACTIVE + r"""
static int (*init)(unsigned);
static char **self;
static void *forks(void *a) {
    for (int i = 0; i < 9; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i % 3 == 0) exit(0);
            if (i % 3 == 1) { execl("/bin/true", "true", NULL); _exit(3); }
            init(0);
            _exit(dlopen(NULL, RTLD_NOW) ? 0 : 4);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status) { printf("%d %x\n", i, status); exit(1); }
    }
    return a;
}
int main(int argc, char **argv) {
    pthread_t t;
    init = dlsym(driver(), "cuInit");
    pthread_create(&t, NULL, forks, NULL);
    usleep(atoi(argv[1]));
    int result = init(0);
    pthread_join(t, NULL);
    until_active();
    return result;
}
"""


def test_forks_race_the_first_init(kit):
    app = kit.program(FORKS)
    for delay in range(100):
        result = kit.go(app, delay * 50, sim=True, timeout=30)
        assert (result.stdout, result.stderr) == ("", "")


SLOW = r"""
#include <unistd.h>
extern int begun;
int whole;
__attribute__((constructor)) static void slowly(void) { begun = 1; usleep(300000); whole = 1; }
"""


def test_no_child_has_half_an_engine(kit):
    """fork waits until the load has ended. In the child, every call passes through for good."""
    kit.fake()
    source = (SOURCE / "tests" / "preload" / "telling_engine.c").read_text()
    kit.library(SLOW + source, "libgpufeed-engine.so", *INCLUDES)
    app = kit.program(r"""
        int begun; static int (*init)(unsigned);
        static void *go(void *a) { init(0); return a; }
        int main(void) { init = dlsym(driver(), "cuInit"); pthread_t t; pthread_create(&t, NULL, go, NULL);
            while (!*(volatile int *)&begun) usleep(100);
            if (fork() == 0) {
                void *engine = dlopen("libgpufeed-engine.so", RTLD_NOW | RTLD_NOLOAD);
                int *whole = engine ? dlsym(engine, "whole") : NULL, (*active)(void) = dlsym(RTLD_DEFAULT, "gpufeed_active");
                printf("%d %d %d ", !whole || *whole, init(0), active()); exit(0); }
            int status; wait(&status); pthread_join(t, NULL); printf("%d\n", status); }
        """, "-rdynamic")
    result = kit.go(app, timeout=30)
    assert result.stdout == "1 0 0 0\n"
    assert len(said(result, "engine")) == len(said(result, "forked")) == 1


def test_the_caller_joins_once(fed):
    app = fed.program("""int main(void) { int (*init)(unsigned) = dlsym(driver(), "cuInit");
        return init(0) | init(0); }""")
    assert said(fed.go(app), "joined") == ["caller=1"]


@pytest.mark.parametrize("way", ["linked", "looked up"])
def test_a_pending_dlerror_and_errno_stay(kit, way):
    """They stay, too, if the engine cannot be loaded."""
    kit.fake()
    linked = way == "linked"
    app = kit.program("extern int cuInit(unsigned);" * linked + r"""
        int main(void) { int (*init)(unsigned) = %s;
            dlopen("/nonexistent.so", RTLD_NOW); errno = 5;
            int r = init(0), e = errno; printf("%%d %%d %%s\n", r, e, dlerror()); }
        """ % ("cuInit" if linked else 'dlsym(driver(), "cuInit")'),
        *([f"-L{kit.folder}", "-l:libcuda.so.1"] * linked))
    assert "/nonexistent.so" in kit.same(app, sim=False).stdout
    kit.library("int nothing;", "libgpufeed-engine.so")
    assert "/nonexistent.so" in kit.same(app).stdout
    kit.engine()
    assert said(kit.same(app), "engine")


def test_the_wait_is_no_cancellation_point(fed):
    app = fed.program(r"""
        static int back, (*init)(unsigned);
        static void *go(void *a) { pthread_cancel(pthread_self()); init(0); back = 1; pthread_testcancel(); return a; }
        int main(void) { init = dlsym(driver(), "cuInit"); pthread_t t; void *r;
            pthread_create(&t, NULL, go, NULL); pthread_join(t, &r); printf("%d %d\n", back, r == PTHREAD_CANCELED); }
        """)
    assert fed.go(app).stdout == "1 1\n"


def test_where_no_thread_can_be_made(kit):
    """The program runs as an ordinary user, because root has no such limit."""
    kit.fake()
    kit.engine()
    app = kit.program(r"""
        #include <sys/resource.h>
        int main(void) { int (*init)(unsigned) = dlsym(driver(), "cuInit");
            struct rlimit one = {1, 1};
            if ((getuid() == 0 && setuid(65534)) || setrlimit(RLIMIT_NPROC, &one)) return 9;
            printf("%d ", init(0)); printf("%d\n", init(0)); }
        """)
    result = kit.go(app, GPUFEED_VERBOSE=1)
    assert result.stdout == "0 0\n"
    line = "copies, pinned memory and placement are off: cannot start a thread: Resource temporarily unavailable"
    assert result.stderr == kit.go(app).stderr == f"gpufeed: {line}\n"


def test_a_small_default_stack(fed):
    app = fed.program("""int main(void) { return ((int (*)(unsigned))dlsym(driver(), "cuInit"))(0); }""")
    result = fed.go("sh", "-c", f"ulimit -s 128 && exec {app}", GPUFEED_MACHINE="thread")
    assert said(result, "stack") == ["enough=1"]


@pytest.mark.parametrize("options", [{}, {"GPUFEED": "observe"}, {"GPUFEED_BIND": "off"}])
def test_there_are_two_threads_of_ours(feed, options):
    feed("""
        start()
        end = time.monotonic() + 20
        names = []
        while (len(names) != 3 or names[:2] != ["gpufeed", "gpufeed-files"]) and time.monotonic() < end:  # a new thread names itself
            names = sorted(name for name, cpus in masks() if not name.startswith("cuda"))
        assert len(names) == 3 and names[:2] == ["gpufeed", "gpufeed-files"], names
    """, **options)
