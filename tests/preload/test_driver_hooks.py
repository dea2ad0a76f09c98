# SPDX-License-Identifier: Apache-2.0
"""Tests each way to look up a driver function (docs/hooks.md has the table): it finds the right function, and nothing
breaks."""

import pathlib

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
    """With the library, each look-up on the simulated driver has the same result and status, and finds the same
    function or its hook."""
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
