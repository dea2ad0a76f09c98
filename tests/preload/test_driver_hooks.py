# SPDX-License-Identifier: Apache-2.0
"""Every way to look up a driver function (docs/hooks.md has the table): which function is found,
and that nothing breaks."""

import os
import pathlib
import re
import subprocess

import pytest
from preloadkit import *

USE = r"""
typedef int init_fn(unsigned);
typedef int retain_fn(void **, int);
typedef int getproc_fn(const char *, void **, int, unsigned long, int *);
static void use(init_fn *init, retain_fn *retain) {
    void *context;
    printf("%d", init(0));
    printf(" %d\n", retain(&context, 1));
}
"""


def assert_used(result):
    assert counts(result)["cuInit"] == 1
    assert said(result, "seen") == ["retained device=1 bytes=0"]
    assert result.stdout.splitlines()[-1] == "0 0"


# --- row 1
def test_linked_against_libcuda(fed):
    app = fed.program(USE + """
        extern init_fn cuInit; extern retain_fn cuDevicePrimaryCtxRetain;
        int main(void) { use(cuInit, cuDevicePrimaryCtxRetain); }
        """, f"-L{fed.folder}", "-l:libcuda.so.1")
    assert_used(fed.go(app))


# --- row 2
def test_opened_and_looked_up(fed):
    app = fed.program(USE + """
        int main(void) { void *h = driver();
            use(dlsym(h, "cuInit"), dlsym(h, "cuDevicePrimaryCtxRetain")); }
        """)
    assert_used(fed.go(app))


def test_python_ctypes(fed):
    assert_used(fed.go("/usr/bin/python3", "-c", """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1))
"""))


# --- row 3
@pytest.mark.parametrize("resolver,version,status", [
    ("cuGetProcAddress", 11030, "0"), ("cuGetProcAddress_v2", 12000, "&status"),
    ("cuGetProcAddress_v2", 12000, "NULL")])
def test_asked_of_the_driver(fed, resolver, version, status):
    app = fed.program(USE + """
        int main(void) { void *h = driver(), *init, *retain, *self; int status = 9;
            getproc_fn *get = dlsym(h, "%s");
            get("cuGetProcAddress", &self, %d, 0, NULL);
            printf("%%d ", self == (void *)get);
            get = self;
            get("cuInit", &init, 2000, 0, %s);
            get("cuDevicePrimaryCtxRetain", &retain, 7000, 2, %s);
            use(init, retain); }
        """ % (resolver, version, status, status))
    result = fed.go(app)
    assert result.stdout == "1 0 0\n"
    assert counts(result)[resolver] == 3
    assert said(result, "seen") == ["retained device=1 bytes=0"]


def test_the_other_resolver_comes_back_as_its_own_hook(fed):
    app = fed.program(USE + """
        int main(void) { void *h = driver(), *v1, *v2;
            getproc_fn *get = dlsym(h, "cuGetProcAddress_v2");
            get("cuGetProcAddress", &v1, 11030, 0, NULL);
            get("cuGetProcAddress", &v2, 12000, 0, NULL);
            printf("%d %d %s\\n", v1 == dlsym(h, "cuGetProcAddress"), v2 == (void *)get, owner(v1)); }
        """)
    assert fed.go(app).stdout == "1 1 libgpufeed.so\n"


def test_stream_flavours_stay_apart(fed):
    app = fed.program(USE + """
        int main(void) { void *h = driver(), *plain, *twin; unsigned long a, b;
            getproc_fn *get = dlsym(h, "cuGetProcAddress_v2");
            get("cuMemAllocAsync", &plain, 11020, 1, NULL);
            get("cuMemAllocAsync", &twin, 11020, 2, NULL);
            ((int (*)(void *, size_t, void *))plain)(&a, 10, NULL);
            ((int (*)(void *, size_t, void *))twin)(&b, 10, NULL);
            printf("%d %lu %lu %s %s\\n", plain != twin, a, b, owner(plain), owner(twin)); }
        """)
    assert fed.go(app).stdout == "1 1 2 libgpufeed.so libgpufeed.so\n"


def test_every_request_of_the_runtime_is_answered_as_by_the_driver(kit):
    """On the simulated driver: the same result and status, and the same function or exactly its
    hook."""
    requests = ["cuInit 2000 0", "cuMemAlloc 3020 0", "cuMemAlloc 2000 0", "cuMemAllocAsync 11020 0",
                "cuMemAllocAsync 11020 2", "cuCtxCreate 3020 0", "cuCtxCreate 11040 0",
                "cuCtxCreate 12050 0", "cuCtxCreate 2000 0", "cuNope 12000 0", "cuInit 99000 0",
                "cuMemAllocAsync 2000 0", "cuMemcpyAsync 7000 2", "cuMemCreate 10020 0",
                "cuInit 2000 8", "cuGetProcAddress 12000 2", "cuGetProcAddress 11030 0"]
    app = kit.program(r"""
        int main(int argc, char **argv) { void *h = driver();
            int (*get)(const char *, void **, int, unsigned long, int *) = dlsym(h, "cuGetProcAddress_v2");
            ((int (*)(unsigned))dlsym(h, "cuInit"))(0);
            for (int i = 1; i < argc; i++) {
                char name[64]; int version, flags, status = 7; void *pfn = (void *)1;
                sscanf(argv[i], "%63s %d %d", name, &version, &flags);
                int result = get(name, &pfn, version, flags, &status);
                Dl_info info = {0};
                if (result == 0 && pfn) dladdr(pfn, &info);
                printf("%s: %d %d %s\n", argv[i], result, status,
                       info.dli_sname ? info.dli_sname : pfn == (void *)1 ? "untouched" : "none"); } }
        """)
    out = kit.same(app, *requests, sim=True).stdout
    assert "cuCtxCreate 12050 0: 0 0 cuCtxCreate_v4" in out


# --- row 4
def test_export_tables_are_left_alone(fed):
    app = fed.program("""
        int main(void) { puts(owner(dlsym(driver(), "cuGetExportTable"))); }""")
    assert fed.go(app).stdout == "libcuda.so.1\n"


# --- rows 5 and 6
RUNTIME = r"""
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void) { void *p; cudaError_t e = cudaMalloc(&p, 4096); printf("%d\n", (int)e);
    void *entry = NULL; enum cudaDriverEntryPointQueryResult q;
    e = cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &entry, 11020, cudaEnableDefault, &q);
    printf("%d %d\n", (int)e, entry != NULL);
    return 0; }
"""


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_nvidias_runtime(kit, kind):
    folder = pathlib.Path("/usr/local/cuda/lib64")
    library = folder / ("libcudart.so" if kind == "shared" else "libcudart_static.a")
    if not library.exists():
        pytest.skip(f"{library} is not installed")
    kit.engine()
    app = kit.build(RUNTIME, *INCLUDES, f"-L{folder}",
                    "-lcudart" if kind == "shared" else "-lcudart_static", "-lpthread", "-ldl", "-lrt")
    env = {"LD_LIBRARY_PATH": f"{kit.folder}:{SIM_DIR}:{folder}"}
    without = kit.go(app, ok=False, preload=False, **env)
    result = kit.go(app, ok=False, **env)
    assert result.stdout == without.stdout
    assert counts(result)["cuInit"] >= 1
    assert counts(result)["cuGetProcAddress_v2"] > 100


# --- row 7
NEIGHBOUR = r"""
#include <dlfcn.h>
#include <stdio.h>
int neighbour(void) { return ((int (*)(unsigned))dlsym(RTLD_NEXT, "cuInit"))(0); }
"""


@pytest.mark.parametrize("before", [True, False])
def test_next_of_another_preload(fed, before):
    """RTLD_NEXT keeps its meaning: a caller before the preload library finds the hooks, a caller
    after it does not."""
    other = fed.library(NEIGHBOUR, "libneighbour.so")
    app = fed.program("""
        extern int neighbour(void) __attribute__((weak)); extern int cuInit(unsigned);
        int main(int c, char **v) { if (c > 9) cuInit(0); printf("%d\\n", neighbour()); }
        """, f"-L{fed.folder}", "-l:libcuda.so.1", "-Wl,--no-as-needed", "-l:libneighbour.so")
    order = [str(other), str(PRELOAD)] if before else [str(PRELOAD), str(other)]
    result = fed.go(app, LD_PRELOAD=":".join(order))
    assert result.stdout == "0\n"
    assert bool(said(result, "engine")) == before


# --- row 8
def test_default_finds_the_exported_hook(fed):
    app = fed.program(USE + """
        int main(void) { dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
            use(dlsym(RTLD_DEFAULT, "cuInit"), dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxRetain")); }
        """)
    assert_used(fed.go(app))


# --- row 9
def test_dlvsym_is_unseen_and_unbroken(fed):
    app = fed.program(USE + """
        int main(void) { void *h = driver(); init_fn *init = dlvsym(h, "cuInit", "ANY");
            printf("%s %d\\n", owner(init), init ? init(0) : -1); }
        """)
    result = fed.same(app)
    assert "libgpufeed" not in result.stdout
    assert not said(result, "engine")


# --- rows 10, 11, 12
PLUGIN = r"""
#include <dlfcn.h>
int plugin(void) { void *h = dlopen("libcuda.so.1", RTLD_NOW);
    return ((int (*)(unsigned))dlsym(h, "cuInit"))(0); }
"""


def test_deepbind_plugin_works(fed):
    fed.library(PLUGIN, "libplugin.so")
    app = fed.program("""
        int main(void) { void *h = dlopen("libplugin.so", RTLD_NOW | RTLD_DEEPBIND);
            printf("%d\\n", ((int (*)(void))dlsym(h, "plugin"))()); }
        """)
    assert fed.go(app).stdout == "0\n"


def test_other_namespace_is_unseen_and_unbroken(fed):
    fed.library(PLUGIN, "libplugin.so")
    app = fed.program("""
        int main(void) { void *h = dlmopen(LM_ID_NEWLM, "libplugin.so", RTLD_NOW);
            if (!h) { puts(dlerror()); return 1; }
            printf("%d\\n", ((int (*)(void))dlsym(h, "plugin"))()); }
        """)
    result = fed.go(app)
    assert result.stdout == "0\n"
    assert not said(result, "engine")


def test_handle_of_another_namespace_gets_the_driver_itself(fed):
    app = fed.program("""
        int main(void) { void *h = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
            int (*init)(unsigned) = dlsym(h, "cuInit");
            printf("%d %s\\n", init(0), owner(init)); }
        """)
    assert fed.go(app).stdout == "0 libcuda.so.1\n"


def test_static_program(kit):
    app = kit.build('#include <stdio.h>\nint main(void) { puts("static"); }', "-static")
    assert kit.go(app).stdout == "static\n"


# --- semantics
def test_failures_come_back_untouched_and_load_nothing(fed):
    app = fed.program("""
        int main(void) { void *h = driver(); errno = 33;
            int r = ((int (*)(unsigned))dlsym(h, "cuInit"))(1);
            int s = ((int (*)(void **, int))dlsym(h, "cuDevicePrimaryCtxRetain"))(NULL, 10);
            printf("%d %d %d\\n", r, s, errno); }
        """)
    result = fed.go(app)
    assert result.stdout == "1 101 33\n"
    assert not said(result, "engine")


def test_null_out_parameters(fed):
    app = fed.program("""
        int main(void) { void *h = driver(); ((int (*)(unsigned))dlsym(h, "cuInit"))(0);
            int a = ((int (*)(void *, size_t))dlsym(h, "cuMemAlloc_v2"))(NULL, 5);
            int b = ((int (*)(void *, size_t *, size_t, size_t, int))dlsym(h, "cuMemAllocPitch_v2"))(NULL, NULL, 10, 3, 4);
            int c = ((int (*)(void *, int))dlsym(h, "cuDevicePrimaryCtxRetain"))(NULL, 2);
            size_t pitch;
            ((int (*)(void *, size_t *, size_t, size_t, int))dlsym(h, "cuMemAllocPitch_v2"))(NULL, &pitch, 10, 3, 4);
            printf("%d %d %d\\n", a, b, c); }
        """)
    result = fed.go(app)
    assert result.stdout == "0 0 0\n"
    assert said(result, "seen") == ["memory device=5 bytes=5", "memory device=5 bytes=30",
                                    "retained device=2 bytes=0", "memory device=5 bytes=1536"]


def test_what_the_driver_lacks_stays_lacking(fed):
    app = fed.program("""
        extern int cuMemCreate(void *, size_t, void *, unsigned long long) __attribute__((weak));
        int main(void) { void *h = driver(), *pfn = (void *)1; int status = 9;
            int (*get)(const char *, void **, int, unsigned long, int *) = dlsym(h, "cuGetProcAddress_v2");
            void *missing = dlsym(h, "cuMemCreate");
            const char *error = dlerror();
            printf("%d %s\\n", !missing, error ? strstr(error, "undefined") : "no error");
            printf("%d", get("cuMemCreate", &pfn, 12000, 0, &status));
            printf(" %d %d\\n", pfn == NULL, status);
            if (cuMemCreate) fprintf(stderr, "exported: %d\\n", cuMemCreate(0, 0, 0, 0)); }
        """)
    result = fed.same(app)
    assert result.stdout == "1 undefined symbol: cuMemCreate\n0 1 1\n"
    assert "exported: 500" in result.stderr


def test_exported_hook_without_any_libcuda(kit):
    app = kit.program("""
        extern int cuInit(unsigned) __attribute__((weak));
        int main(void) { printf("%d %d\\n", cuInit ? cuInit(0) : -1, cuInit ? cuInit(0) : -1); }
        """)
    assert kit.go(app).stdout == "500 500\n"
    trace = kit.folder / "trace"
    kit.go("/usr/bin/strace", "-f", "-e", "trace=openat", "-E", f"LD_PRELOAD={PRELOAD}", "-o", trace, app,
           preload=False)
    assert "libcuda" not in trace.read_text()


def test_a_failed_request_leaves_the_callers_pointer(fed):
    app = fed.program("""
        int main(void) { void *h = driver(), *init = ((void *(*)(void))dlsym(h, "fake_init"))(), *pfn = init;
            int (*get)(const char *, void **, int, unsigned long, int *) = dlsym(h, "cuGetProcAddress_v2");
            printf("%d ", get("cuInit", &pfn, 99000, 0, NULL)); printf("%d\\n", pfn == init); }
        """)
    assert fed.go(app).stdout == "1 1\n"


def test_names_that_share_an_address(kit):
    kit.fake("-DALIASES")
    kit.engine()
    app = kit.program("""
        int main(void) { void *h = driver(); ((int (*)(unsigned))dlsym(h, "cuInit"))(0);
            void *pool = dlsym(h, "cuMemAllocFromPoolAsync"), *twin = dlsym(h, "cuMemAllocFromPoolAsync_ptsz");
            unsigned long p = 0; ((int (*)(void *, size_t, void *, void *))twin)(&p, 1, 0, 0);
            printf("%d %s %lu\\n", pool == twin, owner(pool), p);
            void *v2 = dlsym(h, "cuCtxCreate_v2"), *v3 = dlsym(h, "cuCtxCreate_v3");
            printf("%d %s\\n", v2 == v3, owner(v2)); }
        """)
    assert kit.go(app).stdout == "1 libgpufeed.so 3\n1 libcuda.so.1\n"


def test_other_versions_of_a_name_are_left_alone(fed):
    """cuMemAlloc of CUDA 2 takes 32-bit sizes, so the hook of _v2 must not replace it."""
    app = fed.program("""
        int main(void) { void *h = driver(), *pfn;
            int (*get)(const char *, void **, int, unsigned long, int *) = dlsym(h, "cuGetProcAddress_v2");
            get("cuMemAlloc", &pfn, 2000, 0, NULL);
            printf("%s %s %d\\n", owner(pfn), owner(dlsym(h, "cuMemAlloc")), ((int (*)(void *, int))pfn)(0, 1)); }
        """)
    assert fed.go(app).stdout == "libcuda.so.1 libcuda.so.1 77\n"


def test_only_libcuda_is_met(fed):
    """A function of another library that has a driver function's name is not hooked."""
    fed.library("int cuInit(unsigned f) { return 42; }", "libother.so")
    app = fed.program("""
        int main(void) { void *h = dlopen("libother.so", RTLD_NOW); driver();
            int (*init)(unsigned) = dlsym(h, "cuInit"); printf("%d %s\\n", init(0), owner(init)); }
        """)
    result = fed.go(app)
    assert result.stdout == "42 libother.so\n"


def test_closed_and_opened_again(fed):
    """The addresses in the table stay valid, because a libcuda that was seen stays loaded."""
    app = fed.program("""
        int main(void) { void *h = driver(); int (*init)(unsigned) = dlsym(h, "cuInit"); dlclose(h);
            printf("%d ", dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
            h = driver(); printf("%d %d %d\\n", init(0), init == dlsym(h, "cuInit"), dlclose(h)); }
        """)
    assert fed.go(app).stdout == "1 0 1 0\n"


def test_one_engine_for_many_threads_and_inits(fed):
    app = fed.program("""
        static int (*init)(unsigned);
        static void *go(void *a) { for (int i = 0; i < 100; i++) if (init(0)) abort(); return a; }
        int main(void) { init = dlsym(driver(), "cuInit"); pthread_t t[8];
            for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, go, NULL);
            for (int i = 0; i < 8; i++) pthread_join(t[i], NULL); }
        """)
    result = fed.go(app)
    assert len(said(result, "engine")) == 1
    assert counts(result)["cuInit"] == 800


def test_constructors_that_init_race_a_thread(kit):
    """A constructor of libcuda, and of another library, under the loader's lock."""
    kit.fake("-DCONSTRUCTOR")
    kit.engine()
    kit.library("""
        #include <dlfcn.h>
        static __attribute__((constructor)) void start(void) { void *h = dlopen("libcuda.so.1", RTLD_NOW);
            ((int (*)(unsigned))dlsym(h, "cuInit"))(0); }""", "libinit.so")
    app = kit.program("""
        static void *go(void *a) { ((int (*)(unsigned))dlsym(driver(), "cuInit"))(0); return a; }
        int main(void) { pthread_t t; pthread_create(&t, NULL, go, NULL);
            if (!dlopen("libinit.so", RTLD_NOW)) return 1;
            pthread_join(t, NULL); puts("done");
            int (*active)(void) = dlsym(RTLD_DEFAULT, "gpufeed_active");
            for (int i = 0; active && !active() && i < 10000; i++) usleep(1000); }
        """)
    for _ in range(20):
        result = kit.go(app, timeout=20)
        assert result.stdout == "done\n"
        assert len(said(result, "engine")) == 1


# --- the engine
def test_engine_is_told_of_what_it_asked_for(fed):
    app = fed.program("""
        int main(void) { void *h = driver(), *c; unsigned long p; ((int (*)(unsigned))dlsym(h, "cuInit"))(0);
            ((int (*)(void **, int))dlsym(h, "cuDevicePrimaryCtxRetain"))(&c, 3);
            ((int (*)(void *))dlsym(h, "cuCtxSetCurrent"))(c);
            ((int (*)(void *))dlsym(h, "cuCtxSetCurrent"))(NULL);
            ((int (*)(void *, size_t))dlsym(h, "cuMemAlloc_v2"))(&p, 123);
            ((int (*)(void *, size_t))dlsym(h, "cuMemAlloc_v2"))(&p, 0); }
        """)
    result = fed.go(app)
    assert said(result, "engine") == ["abi=1 size=1 version=0.1.0"]
    assert said(result, "seen") == ["retained device=3 bytes=0", "current device=5 bytes=0",
                                    "memory device=5 bytes=123"]


INIT = """int main(void) { dlerror(); errno = 5; int r = ((int (*)(unsigned))dlsym(driver(), "cuInit"))(0);
    const char *e = dlerror(); printf("%d %d %s\\n", r, errno, e ? e : "clean"); }"""


def test_without_an_engine(kit):
    kit.fake()
    app = kit.program(INIT)
    kit.library("int nothing;", "libgpufeed-engine.so")  # found before the real one
    for verbose in (0, 1):
        result = kit.go(app, GPUFEED_VERBOSE=verbose)
        assert result.stdout == "0 5 clean\n"
        assert len(result.stderr.splitlines()) == 1
        assert "gpufeed: copies, pinned memory and placement are off: " in result.stderr
    assert kit.go(app, GPUFEED="off").stderr == ""


def test_engine_of_another_version(kit):
    kit.fake()
    kit.engine("-DABI=99")
    result = kit.go(kit.program(INIT), GPUFEED_VERBOSE=1)
    assert result.stdout == "0 5 clean\n"
    assert "belongs to another build" in result.stderr
    assert not said(result, "seen")


def test_off(fed):
    app = fed.program("""
        int main(void) { void *h = driver(), *init = dlsym(h, "cuInit"), *pfn;
            int (*get)(const char *, void **, int, unsigned long, int *) = dlsym(h, "cuGetProcAddress_v2");
            get("cuInit", &pfn, 2000, 0, NULL);
            printf("%d %s %s %s\\n", ((int (*)(unsigned))init)(0), owner(init), owner(pfn), owner(get)); }
        """)
    result = fed.go(app, GPUFEED="off")
    assert result.stdout == "0 libcuda.so.1 libcuda.so.1 libcuda.so.1\n"
    assert result.stderr == ""


def test_off_for_a_linked_program(fed):
    app = fed.program("extern int cuInit(unsigned); int main(void) { return cuInit(0); }",
                      f"-L{fed.folder}", "-l:libcuda.so.1")
    assert fed.go(app, GPUFEED="off").stderr == ""
    assert said(fed.go(app), "engine")


def test_forked_child_passes_through(fed):
    app = fed.program("""
        int main(void) { void *h = driver(), *c; int (*init)(unsigned) = dlsym(h, "cuInit"); init(0);
            int (*retain)(void **, int) = dlsym(h, "cuDevicePrimaryCtxRetain"); fflush(stdout);
            for (int raw = 0; raw < 2; raw++) {
                if ((raw ? syscall(57) : fork()) == 0) { init(0); retain(&c, 4); _exit(0); }
                int status; wait(&status); printf("%d\\n", status); }
            retain(&c, 6); }
        """) if subprocess.run(["uname", "-m"], capture_output=True, text=True).stdout == "x86_64\n" else None
    if not app:
        pytest.skip("fork by its number is for x86-64")
    result = fed.go(app)
    assert result.stdout == "0\n0\n"
    assert said(result, "seen") == ["retained device=6 bytes=0"]
    assert len(said(result, "forked")) == 1  # only fork() runs handlers
    assert len(said(result, "engine")) == 1


def test_child_forked_before_the_first_init_is_a_process_of_its_own(fed):
    app = fed.program("""
        int main(void) { void *h = driver(); int (*init)(unsigned) = dlsym(h, "cuInit");
            if (fork() == 0) exit(init(0)); int status; wait(&status); return init(0) | status; }
        """)
    assert len(said(fed.go(app), "engine")) == 2


# --- the public header
HEADER = """
#include <gpufeed.h>
int main(void) { const char *v = gpufeed_get_version(); printf("%s %d %d", v ? v : "none", gpufeed_is_active(), gpufeed_get_node());
    void *h = driver(); ((int (*)(unsigned))dlsym(h, "cuInit"))(0);
    printf(" %d %d\\n", gpufeed_is_active(), gpufeed_get_node()); }
"""


def test_header(fed):
    app = fed.program(HEADER, *INCLUDES)
    assert fed.go(app).stdout == "0.1.0 0 -1 1 7\n"
    assert fed.go(app, preload=False).stdout == "none 0 -1 0 -1\n"
    assert fed.go(app, GPUFEED="off").stdout == "0.1.0 0 -1 0 -1\n"


# --- harmless
EXITS = r"""
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #define SAY(text) (void)!write(1, text, sizeof text - 1)
    void _exit(int status) { SAY("_exit\n"); for (;;) syscall(SYS_exit_group, status); }
    void _Exit(int status) { SAY("_Exit\n"); for (;;) syscall(SYS_exit_group, status); }
"""


@pytest.mark.parametrize("name", ["_exit", "_Exit"])
@pytest.mark.parametrize("order", ["{preload}:{spy}", "{spy}:{preload}", "{spy}"])
def test_another_preloads_ends_are_met(run, compile_c, name, order):
    """The call comes from a program that has called no hook before, from its forked child, and from
    its child of vfork."""
    spy = compile_c(EXITS, "-shared", "-fPIC", name="exits.so")
    app = compile_c("""
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            for (int i = 0; i < 2; i++) {
                int status, child = i ? vfork() : fork();
                if (child == 0) NAME(5);
                if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) return 1; }
            NAME(3); }""", f"-DNAME={name}", name=f"ends-{name}")
    done = run(app, preload=False, LD_PRELOAD=order.format(preload=PRELOAD, spy=spy))
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{name}\n" * 3, "")


def syscalls(text):
    return re.findall(r"^(?:\d+\s+)?(\w+)\((.*)$", text, re.M)


def test_true_is_left_alone(kit, tmp_path):
    def trace(*env):
        out = tmp_path / "trace"
        kit.go("/usr/bin/strace", "-f", *env, "-o", out, "/bin/true", preload=False,
               LD_LIBRARY_PATH="/nonexistent")
        return syscalls(out.read_text())
    without, with_library = trace(), trace("-E", f"LD_PRELOAD={PRELOAD}")

    def opened(calls):
        return [re.search(r'"(.*?)"', rest).group(1) for name, rest in calls if name == "openat"]
    new = set(opened(with_library)) - set(opened(without))
    assert new == {str(PRELOAD)}
    names = {name for name, _ in with_library}
    assert not names & {"clone", "clone3", "write", "socket", "sched_setaffinity", "set_mempolicy"}
    loading = {"openat", "read", "fstat", "newfstatat", "mmap", "mprotect", "close", "pread64",
               "munmap", "access", "getcwd"}
    extra = names - {name for name, _ in without}
    assert extra <= loading, extra


def test_more_rights_than_its_user(kit, tmp_path):
    """Setuid: the preload library may be loaded from a system folder, but its options are ignored.
    """
    kit.engine()
    kit.fake()
    victim = pathlib.Path("/usr/lib/x86_64-linux-gnu/libmemusage.so")
    if os.geteuid() != 0 or not victim.exists():
        pytest.skip("needs root, and a file of libc-bin's to mount the preload library over")
    app = kit.program("""
        #include <sys/auxv.h>
        extern int gpufeed_active(void) __attribute__((weak)); extern int cuInit(unsigned);
        int main(void) { int r = cuInit(0); printf("%ld %d %d %d\\n", getauxval(AT_SECURE), r, !!gpufeed_active,
            gpufeed_active ? gpufeed_active() : -1); }
        """, f"-L{kit.folder}", "-l:libcuda.so.1", f"-Wl,-rpath,{kit.folder}")
    preload = tmp_path / "preload.so"
    preload.write_bytes(PRELOAD.read_bytes())
    for file in (preload, app):
        file.chmod(0o4755)
    for folder in (tmp_path, *tmp_path.parents, *app.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    script = f"""mount --bind {preload} {victim} || exit 99
        exec setpriv --reuid 65534 --clear-groups env LD_PRELOAD=libmemusage.so GPUFEED_VERBOSE=2 \\
            LD_LIBRARY_PATH={kit.folder} {app}"""
    result = kit.run("unshare", "-m", "sh", "-c", script, preload=False)
    if (result.returncode == 99 or "unshare:" in result.stderr or
            result.stdout.startswith("0 ")):
        pytest.skip("no private mounts, or setuid is not honoured here")
    assert (result.stdout, result.stderr) == ("1 0 1 0\\n".replace("\\n", "\n"), "")


def test_needs_libc_alone():
    out = subprocess.run(["readelf", "-dW", PRELOAD], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"\(NEEDED\).*\[(.*)\]", out) == ["libc.so.6"]
    assert "BIND_NOW" not in out and "NODELETE" in out
    assert re.search(r"RUNPATH.*\$ORIGIN", out)
    assert "INIT" not in out and "FINI" not in out, "the preload library must have no constructor"
