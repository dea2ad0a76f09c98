# SPDX-License-Identifier: Apache-2.0
"""Loading the engine: races, failures, forked children, and processes without one."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import APPS, ENGINE_DIR
from preloadkit import *


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
    """Constructors of libcuda and of another library call cuInit under the loader's lock, while a thread calls it,
    too."""
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


@pytest.mark.parametrize("name", ["libgpufeed-engine.so", "libgfhwloc.so", "libgfnuma.so"])
def test_a_truncated_engine_does_not_end_the_program(run, tmp_path, name):
    private = ENGINE_DIR.parent / "host"
    for path in (PRELOAD, ENGINE_DIR / "libgpufeed-engine.so", *private.glob("libgf*.so")):
        shutil.copy(path, tmp_path)
    os.truncate(tmp_path / name, 4096)
    result = run("/usr/bin/python3", "-c", "import ctypes; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0",
                 sim=True, preload=False, LD_PRELOAD=tmp_path / PRELOAD.name)
    assert (result.returncode, result.stderr) == \
        (0, f"gpufeed: copies, pinned memory and placement are off: cannot load {tmp_path}/{name}: the file is truncated\n")


def test_engine_of_another_version(kit):
    kit.fake()
    kit.engine("-DABI=99")
    result = kit.go(kit.program(INIT), GPUFEED_VERBOSE=1)
    assert result.stdout == "0 5 clean\n"
    assert "belongs to another build" in result.stderr
    assert not said(result, "seen")


def test_the_log_is_whole_without_an_engine(kit, tmp_path):
    """The log's thread has no CPU before the process ends."""
    kit.engine("-DABI=99")
    kit.go(APPS / "leaves", "exit", sim=True, ok=False, GPUFEED_LOG=tmp_path / "log", SIM_DELAY="cuMemFree_v2:3000")
    logged = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert logged[-1]["event"] == "exit" and any(line.get("call") == "cuMemFree_v2" for line in logged), logged


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
