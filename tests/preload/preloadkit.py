# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the preload library: an engine that prints each call of the preload library, and small
drivers."""

import re
import subprocess

import pytest
from conftest import BUILD, PRELOAD, SIM_DIR, SOURCE

CUDA = subprocess.run([SOURCE / "scripts" / "cuda-headers.sh"], capture_output=True, text=True,
                      check=True).stdout.strip()
INCLUDES = [f"-I{SOURCE / 'src'}", f"-I{SOURCE / 'tests' / 'preload'}", f"-I{BUILD / 'src'}", f"-I{SOURCE / 'include'}", "-isystem", CUDA]
SHARED = ["-shared", "-fPIC"]

# A driver of a few functions. Twins return different values, so each result shows which function
# was called.
FAKE_DRIVER = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#ifndef INIT_RESULT
#define INIT_RESULT 0
#endif
int calls;
int fake_calls(void) { return calls; }
int cuInit(unsigned);
void *fake_init(void) { return cuInit; }
int cuInit(unsigned flags) { calls++; return flags ? 1 : INIT_RESULT; }
int cuCtxGetDevice(int *d) { *d = 5; return 0; }
int cuCtxGetCurrent(void **c) { *c = (void *)8; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { if (c) *c = (void *)8; return d < 9 ? 0 : 101; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuMemAlloc_v2(unsigned long *p, size_t n) { if (p) *p = 0x1000; return n ? 0 : 1; }
int cuMemAlloc(unsigned *p, unsigned n) { return 77; }
int cuMemAllocPitch_v2(unsigned long *p, size_t *pitch, size_t w, size_t h, unsigned e)
{ if (pitch) *pitch = 512; return 0; }
int cuMemAllocAsync(unsigned long *p, size_t n, void *s) { *p = 1; return 0; }
int cuMemAllocAsync_ptsz(unsigned long *p, size_t n, void *s) { *p = 2; return 0; }
int cuGetExportTable(const void **t, const void *id) { return 500; }
#ifdef ALIASES
int cuCtxCreate_v2(void **c, unsigned f, int d) { return 801; }
int cuCtxCreate_v3() __attribute__((alias("cuCtxCreate_v2")));
int cuMemAllocFromPoolAsync(unsigned long *p, size_t n, void *q, void *s) { *p = 3; return 0; }
int cuMemAllocFromPoolAsync_ptsz() __attribute__((alias("cuMemAllocFromPoolAsync")));
#endif
int cuGetProcAddress_v2(const char *, void **, int, unsigned long, int *);
int cuGetProcAddress(const char *, void **, int, unsigned long);
static const struct { const char *name; void *plain, *thread; } table[] = {
    {"cuInit", cuInit, cuInit}, {"cuMemAlloc", cuMemAlloc_v2, cuMemAlloc_v2},
    {"cuMemAllocAsync", cuMemAllocAsync, cuMemAllocAsync_ptsz},
    {"cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain},
    {"cuGetExportTable", cuGetExportTable, cuGetExportTable},
};
int cuGetProcAddress_v2(const char *name, void **pfn, int version, unsigned long flags, int *status)
{
    void *found = NULL;
    if (version > 13000) return 1;
    if (!strcmp(name, "cuGetProcAddress"))
        found = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    if (!strcmp(name, "cuMemAlloc") && version < 3020)
        found = cuMemAlloc;
    for (size_t i = 0; !found && i < sizeof(table) / sizeof(table[0]); i++)
        if (!strcmp(name, table[i].name)) found = flags & 2 ? table[i].thread : table[i].plain;
    *pfn = found;
    if (status) *status = found ? 0 : 1;
    return 0;
}
int cuGetProcAddress(const char *name, void **pfn, int version, unsigned long flags)
{ return cuGetProcAddress_v2(name, pfn, version, flags, NULL); }
#ifdef CONSTRUCTOR
static __attribute__((constructor)) void start(void) {
    void *h = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*init)(unsigned) = dlsym(h ? h : RTLD_DEFAULT, "cuInit");
    if (init) init(0);
}
#endif
"""

PRELUDE = r"""
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static const char *owner(void *p) {
    Dl_info i;
    if (!p) return "none";
    if (!dladdr(p, &i)) return "unknown";
    const char *s = strrchr(i.dli_fname, '/');
    return s ? s + 1 : i.dli_fname;
}
static void *driver(void) {
    void *h = dlopen("libcuda.so.1", RTLD_NOW);
    if (!h) { puts(dlerror()); exit(9); }
    return h;
}
"""


def said(result, word):
    """The engine's lines "[word ...]" of a finished run, without brackets and word."""
    return re.findall(rf"^\[{word} ?(.*)\]$", result.stderr, re.M)


def counts(result):
    return {name: int(n) for name, n in (line.split() for line in said(result, "count"))}


class Kit:
    """Builds programs and libraries. Runs programs with the printing engine and a driver, which the loader finds by
    LD_LIBRARY_PATH."""

    def __init__(self, run, compile_c, folder):
        self.run, self.compile_c, self.folder = run, compile_c, folder
        self.n = 0

    def build(self, text, *flags, name=None, cc="cc"):
        self.n += 1
        built = self.compile_c(text, *flags, name=f"{self.n}-{name or 'prog'}", cc=cc)
        if name:
            target = self.folder / name
            target.unlink(missing_ok=True)
            built.rename(target)
            return target
        return built

    def library(self, text, name, *flags):
        return self.build(text, *SHARED, f"-Wl,-soname,{name}", *flags, name=name)

    def fake(self, *flags):
        # The fake driver's internal calls are bound to its own functions, like those of NVIDIA's driver.
        return self.library(FAKE_DRIVER, "libcuda.so.1", "-Wl,-Bsymbolic", *flags)

    def engine(self, *flags):
        source = (SOURCE / "tests" / "preload" / "telling_engine.c").read_text()
        return self.library(source, "libgpufeed-engine.so", *INCLUDES, *flags)

    def program(self, text, *flags, cc="cc"):
        return self.build(PRELUDE + text, *flags, cc=cc)

    def go(self, *command, sim=False, ok=True, preload=True, **extra):
        paths = [str(self.folder)] + ([str(SIM_DIR)] if sim else [])
        extra.setdefault("LD_LIBRARY_PATH", ":".join(paths))
        result = self.run(*command, preload=preload, **extra)
        if ok:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    def same(self, *command, **kw):
        """Checks that the output and the exit code are the same without and with the preload library."""
        without = self.go(*command, ok=False, preload=False,
                          **{k: v for k, v in kw.items() if k != "LD_PRELOAD"})
        with_library = self.go(*command, ok=False, **kw)
        assert (without.stdout, without.returncode) == (with_library.stdout, with_library.returncode), \
            with_library.stderr
        return with_library


@pytest.fixture
def kit(run, compile_c, tmp_path):
    return Kit(run, compile_c, tmp_path)


@pytest.fixture
def fed(kit):
    """A kit with a driver and an engine."""
    kit.fake()
    kit.engine()
    return kit


__all__ = ["PRELOAD", "SIM_DIR", "SOURCE", "INCLUDES", "SHARED", "FAKE_DRIVER", "Kit", "counts", "fed",
           "kit", "said"]
