# SPDX-License-Identifier: Apache-2.0
"""Programs and preloads that replace functions of libc by functions that allocate or take locks. The library must
call libc's own functions."""

import json
import os
import platform
import subprocess
import time

import pytest
from conftest import CUDA, PRELOAD, SIM_DIR

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
LOGGED = {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}


@pytest.fixture(scope="session")
def imports():
    """Returns the functions that the library imports from other libraries."""
    def names(kind, path):
        listed = subprocess.run(["nm", "-D", kind, path], capture_output=True, text=True, check=True).stdout
        return {tuple(line.split()[-2:]) for line in listed.splitlines()}
    defined = {name for _, name in names("--defined-only", PRELOAD)}
    wanted = {name.split("@")[0] for kind, name in names("--undefined-only", PRELOAD) if kind == "U"}
    listed = subprocess.run(["nm", "-D", "--defined-only", "/lib/x86_64-linux-gnu/libc.so.6"], capture_output=True,
                            text=True, check=True).stdout
    functions = {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-2] in "TWi"}
    assert len(wanted & functions) > 40
    return sorted((wanted & functions) - defined)


@pytest.fixture(scope="session")
def interposer(compile_here, imports, tmp_path_factory):
    """interposer(kind) returns the flags that link the interposer into a program, or its path as a preload."""
    if platform.machine() != "x86_64":
        pytest.skip("the interposer is written for x86-64")

    folder = tmp_path_factory.mktemp("imports")
    (folder / "imports.inc").write_text("".join(f"IMPORT({name})\n" for name in imports))

    def build(*flags, **kw):
        return compile_here("interposer.c", f"-I{folder}", "-O1", "-fno-builtin", "-fno-toplevel-reorder", "-fPIC",
                            *flags, **kw)
    return build


@pytest.mark.parametrize("mode", ["on", "observe", "off"])
def test_own_dl_iterate_phdr(run, compile_here, mode):
    """The replacement calls dlsym for the next definition, so dlsym must not call it."""
    run.alike(compile_here("own_iterate.c", "-rdynamic"), GPUFEED=mode)


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
@pytest.mark.parametrize("extra", [{}, LOGGED, {"GPUFEED_HEAP": "off"}, {"GPUFEED": "observe"}, {"GPUFEED": "off"}])
def test_program_interposes_all(run, compile_here, interposer, extra, gpu):
    """The interposer is linked into the program itself, which precedes the library."""
    replaced = interposer("-c", name="interposer.o")
    program = compile_here("heap_user.c", "-fno-builtin", replaced, "-rdynamic", "-pthread")
    run.alike(program, *gpu, sim=True, **extra)


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("call", ["munmap", "sched_setaffinity", "pthread_setaffinity_np", "pthread_create", "dlsym",
                                  "dlopen", "pthread_atfork", "cuInit", "cuCtxSetCurrent", "_exit"])
def test_first_call(run, compile_here, interposer, call, mode):
    """The library is bound to libc before it calls anything, whichever function the program calls
    first."""
    replaced = interposer("-c", name="interposer.o")
    program = compile_here("first_call.c", "-isystem", CUDA, replaced, "-rdynamic", "-pthread",
                           SIM_DIR / "libcuda.so.1")
    run.alike(program, call, sim=True, GPUFEED=mode)


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
@pytest.mark.parametrize("extra", [{}, LOGGED, {"GPUFEED_HEAP": "off"}, {"GPUFEED": "off"}])
@pytest.mark.parametrize("first", ["library", "interposer"])
def test_preload_interposes_all(run, compile_here, interposer, first, extra, gpu):
    """The interposer is another preload, before or after the library."""
    other = interposer("-shared", name="libinterposer.so")
    order = [PRELOAD, other] if first == "library" else [other, PRELOAD]
    program = compile_here("heap_user.c", "-fno-builtin", "-pthread")
    run.alike(program, *gpu, sim=True, without={"LD_PRELOAD": other},
              LD_PRELOAD=":".join(str(path) for path in order), **extra)


@pytest.mark.parametrize("extra", [{}, LOGGED])
@pytest.mark.parametrize("first", ["library", "faketime"])
def test_faketime(run, compile_here, first, extra):
    """libfaketime takes a lock in clock_gettime, and allocates at its start."""
    if not os.path.exists(FAKETIME):
        pytest.skip("no libfaketime on this machine")
    order = [str(PRELOAD), FAKETIME] if first == "library" else [FAKETIME, str(PRELOAD)]
    program = compile_here("heap_user.c", "-fno-builtin", "-pthread")
    run.alike(program, sim=True, without={"LD_PRELOAD": FAKETIME}, FAKETIME="-2d",
              LD_PRELOAD=":".join(order), **extra)


COPIES = """
import ctypes
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8 << 20)) == 0
host, half = ctypes.create_string_buffer(8 << 20), (ctypes.c_long * 2)(0, 500000000)
for _ in range(10):
    assert cuda.cuMemcpyHtoD_v2(pointer, host, ctypes.c_size_t(len(host))) == 0
assert libc.syscall(35, half, None) == 0  # nanosleep
"""


@pytest.mark.parametrize("first", ["library", "faketime"])
@pytest.mark.parametrize("fake", ["2020-01-01 00:00:00", "+0 x100"], ids=["stopped", "fast"])
def test_durations_beside_a_faked_clock(run, tmp_path, fake, first):
    """Waits with a time limit also end by the kernel's clock."""
    if not os.path.exists(FAKETIME):
        pytest.skip("no libfaketime on this machine")
    order, report = [str(PRELOAD), FAKETIME], tmp_path / "report"
    begun = time.monotonic()
    done = run("/usr/bin/python3", "-c", COPIES, preload=False, sim=True, FAKETIME=fake, GPUFEED_REPORT=report,
               LD_PRELOAD=":".join(order if first == "library" else order[::-1]), timeout=60)
    most = time.monotonic() - begun
    assert (done.returncode, done.stderr) == (0, "")
    text = json.loads(report.read_text())
    observed = text["gpu_time"]["devices"][0]["s"]  # from the sampler's first round on, which a busy machine delays
    assert 0.5 <= text["ran_s"] <= most and 0 < observed <= most, (most, text["ran_s"], observed)


AUDITOR = r"""
#include <link.h>
#include <stdlib.h>
unsigned la_version(unsigned version) { return LAV_CURRENT; }
unsigned la_objopen(struct link_map *object, Lmid_t space, uintptr_t *cookie)
{
    free(malloc(1000));
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
uintptr_t la_symbind64(ElfW(Sym) *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name)
{
    free(malloc(1000));
    return symbol->st_value;
}
"""


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
@pytest.mark.parametrize("extra", [{}, LOGGED, {"LD_BIND_NOW": 1}, {"GPUFEED": "off"}])
def test_an_auditor(run, compile_c, compile_here, extra, gpu):
    """An auditor of the loader has its own libc, and sees each call that the loader binds. It leaves little static TLS
    (docs/debugging.md)."""
    auditor = compile_c(AUDITOR, "-shared", "-fPIC", name="auditor.so")
    program = compile_here("heap_user.c", "-fno-builtin", "-pthread")
    run.alike(program, *gpu, sim=True, LD_AUDIT=auditor, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=4096", **extra)


@pytest.mark.parametrize("first", ["library", "other"])
def test_syscall_that_reads_eight_arguments(run, compile_c, first):
    """libuid_wrapper's syscall reads more arguments than its caller passes, above the caller's frame."""
    other = compile_c(r"""
        #include <dlfcn.h>
        #include <stdarg.h>
        long syscall(long number, ...) {
            static long (*next)(long, ...);
            long word[8];
            va_list list;
            va_start(list, number);
            for (int i = 0; i < 8; i++) word[i] = va_arg(list, long);
            va_end(list);
            if (!next) next = dlsym(RTLD_NEXT, "syscall");
            return next(number, word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]); }
        """, "-shared", "-fPIC", "-fno-builtin", name="libothersyscall.so")
    program = compile_c(r"""
        #include <dlfcn.h>
        int main(void) {
            void *driver = dlopen("libcuda.so.1", RTLD_NOW);
            return !driver || ((int (*)(unsigned))dlsym(driver, "cuInit"))(0); }
        """, name="initializes")
    order = [PRELOAD, other] if first == "library" else [other, PRELOAD]
    run.alike(program, LD_LIBRARY_PATH=SIM_DIR, LD_PRELOAD=":".join(map(str, order)), without={"LD_PRELOAD": str(other)})


FREED_STRING = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void)
{
    void *const wanted = (void *)0x10000000000; /* nothing else is mapped there later */
    char *const text = mmap(wanted, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*init)(unsigned);
    strcpy(text, "TZ=UTC");
    putenv(text);              /* replaces the string in the list that the program started with */
    setenv("ANOTHER", "1", 1); /* libc copies the list */
    unsetenv("TZ");
    munmap(text, 4096);
    *(void **)&init = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    printf("%d %s\n", init(0), getenv("ANOTHER"));
    return 0;
}
"""


@pytest.mark.parametrize("log", [False, True])
def test_string_that_left_the_environment(run, compile_c, tmp_path, log):
    """A program may free a string of its environment once it has removed it. The library reads the list of the start
    only at the first malloc."""
    run.alike(compile_c(FREED_STRING), sim=True, TZ="CET", **({"GPUFEED_LOG": tmp_path / "log"} if log else {}))


TITLED = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
extern char **environ;
int main(int argc, char **argv)
{
    int (*init)(unsigned), count = 0;
    char *end = argv[argc - 1];
    while (environ[count])
        count++;
    char **const copy = calloc(count + 1, sizeof(*copy));
    for (int i = 0; i < count; i++) {
        copy[i] = strdup(environ[i]);
        end = environ[i] + strlen(environ[i]);
    }
    environ = copy;
    memset(argv[0], 0, end - argv[0]);
    strcpy(argv[0], "title");
    *(void **)&init = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    return init(0);
}
"""


def test_log_of_a_program_that_sets_its_title(run, compile_c, tmp_path):
    """setproctitle, as in vLLM and Ray, writes the title over the arguments and the environment of the start."""
    done = run(compile_c(TITLED), sim=True, SLURM_JOB_ID="4711", GPUFEED_LOG=tmp_path / "log")
    assert done.returncode == 0, done
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["job"] == {"SLURM_JOB_ID": "4711"}


SETS_AFTER_INIT = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static long ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
int main(void)
{
    static char values[4096][8];
    char name[16];
    int (*init)(unsigned), lost = 0;
    *(void **)&init = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    for (int i = 0; i < 4096; i++) {
        snprintf(values[i], sizeof(values[i]), "%d", i);
        setenv("VALUE", values[i], 1);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "V%d", i);
        setenv(name, "", 1);
    }
    lost += init(0) != 0;
    const long end = ms() + 60;
    for (int i = 0; i % 256 || ms() < end; i++) {
        setenv("VALUE", values[i % 4096], 1);
        lost += strcmp(getenv("VALUE"), values[i % 4096]) != 0;
    }
    printf("%d lost\n", lost);
    return 0;
}
"""


def test_setenv_after_init(run, compile_c):
    """The library, which adds a variable for child processes, does not do so beside the thread that called cuInit."""
    program = compile_c(SETS_AFTER_INIT)
    for _ in range(5):
        run.alike(program, sim=True)
