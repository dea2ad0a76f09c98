# SPDX-License-Identifier: Apache-2.0
"""A preload after the library that replaces the driver, like Nsight Compute's: it still sees every
call."""

import json
import shutil

import pytest
from conftest import APPS, BUILD, ENGINE_DIR
from preloadkit import *

# The shim opens libcuda for itself. A program that opens libcuda gets the object that contains its
# dlopen. With the library in front, that object is the library.
STAND_IN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
typedef void *open_fn(const char *, int);
static open_fn *original(void) {
    static open_fn *found;
    if (!found) found = dlsym(RTLD_NEXT, "dlopen");
    return found; }
static void *real(const char *name) {
    static void *handle;
    if (!handle) handle = original()("libcuda.so.1", RTLD_NOW);
    return dlsym(handle, name); }
void *dlopen(const char *file, int mode) {
    Dl_info mine;
    if (file && strstr(file, "libcuda.so") && dladdr(dlopen, &mine)) return original()(mine.dli_fname, mode);
    return original()(file, mode); }
#define STANDS_IN(name, params, ...) int name params { \
    printf("- " #name "\n"); return ((int (*) params)real(#name))(__VA_ARGS__); }
STANDS_IN(cuInit, (unsigned f), f)
STANDS_IN(cuDevicePrimaryCtxRetain, (void **c, int d), c, d)
STANDS_IN(cuCtxGetCurrent, (void **c), c)
STANDS_IN(cuCtxGetDevice, (int *d), d)
STANDS_IN(cuCtxSetCurrent, (void *c), c)
STANDS_IN(cuMemAlloc_v2, (unsigned long *p, size_t n), p, n)
STANDS_IN(cuGetExportTable, (const void **t, const void *id), t, id)
/* What it looks up for itself is libcuda's own, whether or not it has a function of that name. */
static int is_libcudas(const char *name) {
    Dl_info found;
    return dladdr(real(name), &found) && strstr(found.dli_fname, "libcuda.so"); }
int cuMemcpyHtoD_v2(unsigned long d, void *s, size_t n) {
    return is_libcudas("cuMemAllocAsync") && is_libcudas("cuMemAlloc_v2") ? 42 : 43; }
int cuGetProcAddress_v2(const char *name, void **pfn, int version, unsigned long flags, int *status) {
    printf("- cuGetProcAddress_v2 %s\n", name);
    if (!strcmp(name, "cuGetProcAddress")) *pfn = cuGetProcAddress_v2;
    else if (!strcmp(name, "cuInit")) *pfn = cuInit;
    else if (!strcmp(name, "cuMemAlloc")) *pfn = cuMemAlloc_v2;
    else return ((int (*)(const char *, void **, int, unsigned long, int *))real("cuGetProcAddress_v2"))
        (name, pfn, version, flags, status);
    return 0; }
"""

USE = r"""
#define CALL(name, params, ...) do { int (*call) params = find(#name); \
    printf("%s", #name); fflush(stdout); \
    if (call) printf(" = %d\n", call(__VA_ARGS__)); else { const char *e = dlerror(); printf(" is not there: %d\n", !!e); } } while (0)
static void use(void *(*find)(const char *)) {
    void *context; unsigned long at; int device; const void *table;
    CALL(cuInit, (unsigned), 0);
    CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 1);
    CALL(cuCtxSetCurrent, (void *), context);
    CALL(cuCtxGetDevice, (int *), &device);
    CALL(cuMemAlloc_v2, (unsigned long *, size_t), &at, 4096);
    CALL(cuMemcpyHtoD_v2, (unsigned long, void *, size_t), at, &at, 8);
    CALL(cuGetExportTable, (const void **, const void *), &table, NULL);
    CALL(cuNothing, (int), 0); }
"""
OPENED = USE + r"""
static void *looked_up(const char *name) { return dlsym(driver(), name); }
static void *asked(const char *name) {
    int (*get)(const char *, void **, int, unsigned long, int *) = looked_up("cuGetProcAddress_v2"), status;
    void *found = NULL, *self = NULL;
    get("cuGetProcAddress", &self, 12000, 0, &status);
    printf("%d ", self == (void *)get);
    get(name, &found, 2000, 0, &status);
    return found; }
int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    puts(dlsym(driver(), "cuMemAllocAsync") ? "more" : "no more"); /* the driver's alone */
    use(argc > 1 ? asked : looked_up); }
"""
LINKED = USE + r"""
extern int cuInit(), cuDevicePrimaryCtxRetain(), cuCtxSetCurrent(), cuCtxGetDevice(), cuMemAlloc_v2(),
    cuGetExportTable(), cuMemAllocAsync();
static void *linked(const char *name) {
#define IS(symbol) if (!strcmp(name, #symbol)) return symbol;
    IS(cuInit) IS(cuDevicePrimaryCtxRetain) IS(cuCtxSetCurrent) IS(cuCtxGetDevice) IS(cuMemAlloc_v2)
    IS(cuGetExportTable)
    return dlsym(RTLD_DEFAULT, name); }
int main(void) {
    unsigned long at = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    use(linked);
    const int result = cuMemAllocAsync(&at, 8, NULL);
    printf("%d %lu\n", result, at); }
"""


def calls(output):
    """The calls and results, without the engine's own calls, which are on separate lines."""
    return [line for line in output.splitlines()
            if line not in ("- cuInit", "- cuCtxGetCurrent", "- cuCtxGetDevice")]


def compare(fed, app, *arguments, behind=True, **environment):
    """Checks that the output is the same as with the shim alone, which sees each call."""
    stand_in = fed.library(STAND_IN, "libstandin.so")
    plain = fed.go(app, *arguments, preload=False, LD_PRELOAD=stand_in)
    ours = fed.go(app, *arguments, LD_PRELOAD=f"{PRELOAD}:{stand_in}" if behind else f"{stand_in}:{PRELOAD}", **environment)
    # If the shim precedes the library, it looks up libcuda's functions like any program, and gets
    # the hooks.
    answered = ours.stdout if behind else ours.stdout.replace("= 43", "= 42")
    assert calls(answered) == calls(plain.stdout)
    assert "cuInit- cuInit" in calls(plain.stdout)
    return ours


def test_opened(fed):
    result = compare(fed, fed.program(OPENED))
    assert said(result, "seen") == ["retained device=1 bytes=0", "current device=5 bytes=0", "memory device=5 bytes=4096"]
    assert counts(result)["cuInit"] == 1


def test_asked(fed):
    """A foreign handle that the shim returns is not taken for the library's own."""
    result = compare(fed, fed.program(OPENED), "asked")
    assert counts(result)["cuInit"] == 1 and counts(result)["cuGetProcAddress_v2"] == 16


def test_linked(fed):
    app = fed.program(LINKED, f"-L{fed.folder}", "-l:libcuda.so.1")
    result = compare(fed, app)
    assert "retained device=1 bytes=0" in said(result, "seen")
    # the driver's own function, because the shim lacks it
    assert result.stdout.splitlines()[-1] == "0 1"


def test_off(fed):
    result = compare(fed, fed.program(OPENED), GPUFEED="off")
    assert not said(result, "engine")


def test_python(fed):
    text = """if True:
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")
        device = ctypes.c_int()
        print(cuda.cuInit(0), cuda.cuCtxGetDevice(ctypes.byref(device)), device, hasattr(cuda, "cuNothing"), flush=True)
        """
    stand_in = fed.library(STAND_IN, "libstandin.so")
    plain, ours = (fed.go("/usr/bin/python3", "-c", text, LD_PRELOAD=preload)
                   for preload in (stand_in, f"{PRELOAD}:{stand_in}"))
    assert ours.stdout == plain.stdout and "0 0" in plain.stdout


def test_in_front_of_ours(fed):
    result = compare(fed, fed.program(OPENED), behind=False)
    assert "retained device=1 bytes=0" in said(result, "seen")


def test_in_two_parts(fed):
    """A shim whose dlopen is in another object is not recognised. The program still finds the functions that only the
    shim has."""
    functions = fed.library("int cuInit(unsigned f) { return 0; } int cuNothing(int a) { return 7; }", "libfunctions.so")
    opener = fed.library(STAND_IN.split("#define STANDS_IN")[0], "libopener.so", "-Wl,--no-as-needed", str(functions))
    app = fed.program("""
        int main(void) { void *h = driver(); int (*init)(unsigned) = dlsym(h, "cuInit"), (*nothing)(int) = dlsym(h, "cuNothing");
            void *less = dlsym(h, "cuLess"); const char *error = dlerror();
            printf("%d %d %d %d\\n", init(0), nothing ? nothing(0) : -1, !less, !!error); }
        """)
    plain, ours = (fed.go(app, LD_PRELOAD=preload) for preload in (opener, f"{PRELOAD}:{opener}"))
    assert plain.stdout == ours.stdout == "0 7 1 1\n"


# A complete driver that writes its errors to a file, so that the test sees each call.
@pytest.fixture(scope="module")
def whole(compile_c, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    built = compile_c((SOURCE / "tests" / "sim" / "telling.c").read_text(), *SHARED, "-O1", "-DSTANDS_IN",
                      f"-I{SOURCE / 'tests' / 'sim'}", *INCLUDES, name="libstandin.so")
    (folder / "sim.so").symlink_to(SIM_DIR / "libcuda.so.1")
    return built, folder


@pytest.mark.parametrize("what", ["bytes", "kinds"])
def test_copies_are_the_drivers(run, whole, what):
    stand_in, folder = whole
    program = APPS / "stage"
    places = {"LD_LIBRARY_PATH": f"{folder}:{SIM_DIR}", "GPUFEED_VERBOSE": 2, "GPUFEED_STAGE_MIN": 4096,
              "GPUFEED_STAGE_THREADS": 4, "COLD": 1} # there is no ring to wait for
    plain = run(program, what, preload=False, LD_PRELOAD=stand_in, **places)
    ours = run(program, what, LD_PRELOAD=f"{PRELOAD}:{stand_in}", **places)
    assert plain.returncode == 0, plain.stderr
    assert (ours.stdout, ours.returncode) == (plain.stdout, 0), ours.stderr
    assert ours.stderr.count(f"copies and pinned memory are left to the driver: {stand_in} is preloaded in "
                               "the driver's place") == 1
    assert "staged" not in ours.stderr


def test_errors_go_through_it(run, whole, tmp_path):
    """Each call reaches the driver exactly once, as the driver's record of its errors shows."""
    stand_in, folder = whole
    text = """if True:
        import ctypes
        from ctypes import byref, c_size_t, c_uint64, c_void_p
        cuda = ctypes.CDLL("libcuda.so.1")
        at, context = c_uint64(), c_void_p()
        print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context))
        print(cuda.cuMemFreeHost(c_void_p(4096)), cuda.cuMemAlloc_v2(byref(at), c_size_t(0)), cuda.cuEventDestroy_v2(None),
              cuda.cuMemcpyHtoD_v2(c_uint64(5), c_void_p(4096), c_size_t(8)), cuda.cuMemFree_v2(c_uint64(5)))
        """
    seen = []
    for preload in (stand_in, f"{PRELOAD}:{stand_in}"):
        told = tmp_path / "errors"
        told.write_text("")
        done = run("/usr/bin/python3", "-c", text, LD_PRELOAD=preload, TELL_ERRORS=told, LD_LIBRARY_PATH=f"{folder}:{SIM_DIR}")
        assert done.returncode == 0, done.stderr
        seen.append((done.stdout, told.read_text()))
    assert seen[0] == seen[1]
    assert len(seen[0][1].splitlines()) == 5


@pytest.mark.parametrize("first", ["ours", "other"])
def test_of_two_copies_one_serves(run, tmp_path, first):
    """/etc/ld.so.preload and `gpufeed run` can load two copies: the first in search order serves, and
    one line warns."""
    for file in (PRELOAD, *ENGINE_DIR.glob("*.so"), *(BUILD / "src" / "host").glob("*.so")):
        shutil.copy(file, tmp_path)
    other = tmp_path / PRELOAD.name
    serves, out = (PRELOAD, other) if first == "ours" else (other, PRELOAD)
    report = tmp_path / "r.json"
    done = run("/usr/bin/python3", "-c", """if True:
        import ctypes, threading
        thread = threading.Thread(target=print)
        thread.start()
        thread.join()
        cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context))
        print(ctypes.CDLL(None).gpufeed_active())
        """, preload=False, sim=True, LD_PRELOAD=f"{serves}:{out}", GPUFEED_VERBOSE=1, GPUFEED_REPORT=report,
               GPUFEED_STALL_US=0)
    assert (done.returncode, done.stdout) == (0, "\n0 0 0\n1\n"), done.stderr
    warning, *others = done.stderr.splitlines()
    assert warning == (f"gpufeed: two copies of the library are loaded: {serves} is active, {out} passes every call through. "
                       "Name only one in LD_PRELOAD; `gpufeed run` adds its own.")
    assert [line.split()[1] for line in others] == ["GPU", "after"], done.stderr
    told = json.loads(report.read_text())
    assert told["transfers"] and not told["transfers"]["staging_off"], told["transfers"]
    # the first copy serves malloc; the second one does not
    assert told["heap"]["mode"] == "replace", told["heap"]


def test_a_program_with_a_version_of_its_own_is_no_copy(run, compile_c):
    program = compile_c("""
        #include <dlfcn.h>
        #include <stdio.h>
        const char *gpufeed_version(void) { return "the program's"; }
        int main(void) {
            int (*init)(unsigned) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
            int (*active)(void) = dlsym(RTLD_DEFAULT, "gpufeed_active");
            int result = init(0);
            printf("%d %d\\n", result, active());
        }""", "-rdynamic")
    done = run(program, sim=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1\n", "")
