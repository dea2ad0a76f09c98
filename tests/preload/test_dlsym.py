# SPDX-License-Identifier: Apache-2.0
"""The preload library's dlsym and dlopen find what libc's would find for the same caller. This holds for each
compiler and optimization level."""

import platform
import re
import shutil
import subprocess

import pytest
from preloadkit import *
from conftest import BUILD, LONG

PRELOAD_SOURCES = SOURCE / "src" / "preload"


# The rooms below the hooks, and the hooks of the driver's functions, run no code before a caller's frame is left, so a build for
# this processor takes them as built.
BELOW = [str(BUILD / "src" / f"libgf_{room}.a") for room in ("hook", "config", "os", "base")]
OF_DRIVER = re.compile(r"on_\w+\.c|copy_\w+\.c|driver_call\.c|timed_call\.c")


def sources(arch, folders):
    layers = [SOURCE / "src" / "base" / "loader.c", *(path for folder in folders for path in (SOURCE / "src" / folder).glob("*.c"))]
    # real_clock.c belongs to the engine, whose link redirects calls to it.
    layers = [path for path in layers if not path.name.startswith("generate") and path.name != "real_clock.c"]
    if arch == platform.machine():
        layers = [path for path in layers if not OF_DRIVER.fullmatch(path.name)]
    return [*map(str, sorted(set(layers))), *(str(PRELOAD_SOURCES / "hook" / f"{name}_{arch}.S") for name in ("resolve", "entry"))]


def build_preload(folder, cc, *flags, arch=platform.machine()):
    """The preload library, built from its sources without the heap."""
    preload = folder / "libgpufeed.so"
    hooks, below = ("preload/attach", "preload/hook"), ("base", "config", "os")
    exports = folder / "exports.map"
    subprocess.run([*cc, "-E", "-P", "-x", "c", "-I", SOURCE / "src", PRELOAD_SOURCES / "exports.map.in", "-o", exports], check=True)
    parts = sources(arch, hooks) if arch == platform.machine() else sources(arch, hooks + below)
    subprocess.run([*cc, *flags, "-D_GNU_SOURCE", "-std=gnu17", "-fvisibility=hidden", "-fPIC",
                    "-ftls-model=initial-exec", '-DGF_VERSION="0.1.0"', "-shared", *INCLUDES,
                    *parts, str(SOURCE / "tests" / "preload" / "no_heap.c"), "-o", str(preload),
                    *(["-Wl,--start-group", *BELOW, "-Wl,--end-group"] if arch == platform.machine() else []),
                    f"-Wl,--version-script={exports}",
                    "-Wl,-z,now,-z,nodelete,-z,defs", "-Wl,-rpath,$ORIGIN"], check=True)
    return preload


@pytest.fixture(scope="module", params=["as built", "gcc -O0", "clang -O2", *(["clang -O0"] if LONG else [])])
def preload(request, tmp_path_factory):
    if request.param == "as built":
        return PRELOAD
    cc, level = request.param.split()
    if not shutil.which(cc):
        pytest.skip(f"{cc} is not installed")
    return build_preload(tmp_path_factory.mktemp("preload"), [cc], level)


# A library with a function whose name a later library also defines, like OpenMP's ompt_start_tool.
# It looks up the next definition; if it found itself, it would recurse for ever.
SELF = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
int tool(int depth) {
    int (*next)(int) = dlsym(RTLD_NEXT, "tool");
    return depth > 3 ? -1 : next ? next(depth + 1) : 7;
}
int hidden_away(void) { return 5; }
int find_own(void) { int (*own)(void) = dlsym(RTLD_DEFAULT, "hidden_away"); return own ? own() : -1; }
int cuTool(int depth) {
    int (*next)(int) = dlsym(RTLD_NEXT, "cuTool");
    return depth > 3 ? -1 : next ? next(depth + 1) : 9;
}
int cuFindOwn(void) { int (*own)(int) = dlsym(RTLD_DEFAULT, "cuTool"); return own ? own(0) : -1; }
"""


def test_next_is_not_the_caller_itself(kit, preload):
    kit.library(SELF, "libself.so")
    app = kit.program("extern int tool(int), cuTool(int);\n"
                      'int main(void) { printf("%d %d\\n", tool(0), cuTool(0)); }',
                      f"-L{kit.folder}", "-l:libself.so")
    assert kit.go(app, LD_PRELOAD=preload).stdout == "7 9\n"


def test_default_from_a_local_library(kit, preload):
    kit.library(SELF, "libself.so")
    app = kit.program("""
        int main(void) { void *h = dlopen("libself.so", RTLD_NOW | RTLD_LOCAL);
            printf("%d %d\\n", ((int (*)(void))dlsym(h, "find_own"))(), ((int (*)(void))dlsym(h, "cuFindOwn"))()); }
        """)
    assert kit.go(app, LD_PRELOAD=preload).stdout == "5 9\n"


def test_answers_and_errors_are_the_originals(kit, preload):
    kit.fake()
    app = kit.program(r"""
        static void ask(void *h, const char *name) {
            dlerror(); errno = 77; void *p = dlsym(h, name); int e = errno; const char *error = dlerror();
            printf("[%s] %d %d %s\n", name, !!p, e, error ? error : "-"); }
        int main(void) { void *h = driver();
            static const char *const names[] = {"cuInit", "cuNope", "cu", "c", "", "cUInit", "cublas", "dlsym",
                "cuGetExportTable", "fake_calls", "culInit", "cu[", "cuZ"};
            for (int i = 0; i < sizeof(names) / sizeof(*names); i++) {
                ask(h, names[i]); ask(RTLD_DEFAULT, names[i][0] == 'c' && names[i][2] == 'I' ? "x" : names[i]);
                ask(RTLD_NEXT, names[i]); } }
        """)
    without = kit.go(app, preload=False).stdout
    assert "[cuNope] 0 77" in without and "undefined symbol: cuNope" in without
    with_library = kit.go(app, LD_PRELOAD=preload).stdout
    # RTLD_NEXT finds the preload library after the program. Its export answers even if libcuda is
    # not global.
    known = re.compile(r"^\[cuInit\] .*$", re.M)
    assert known.sub("", with_library) == known.sub("", without)
    assert known.findall(with_library)[0] == known.findall(without)[0] == "[cuInit] 1 77 -"


def test_no_driver_no_answer(kit, preload):
    """A program that searches the global scope for CUDA gets the same answer as it would without
    the library."""
    app = kit.program(r"""
        int main(int argc, char **argv) { if (argc > 1) dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
            printf("%d ", dlsym(RTLD_DEFAULT, "cuInit") != NULL);
            const char *error = dlerror(); printf("%s ", error ? strstr(error, "undefined") : "-");
            printf("%d", dlsym(dlopen(NULL, RTLD_NOW), "cuInit") != NULL);
            printf("%d\n", dlsym(RTLD_DEFAULT, "cuMemCreate") != NULL); }
        """)
    assert kit.same(app, LD_PRELOAD=preload).stdout == "0 undefined symbol: cuInit 00\n"
    kit.fake()
    assert kit.go(app, "driver", LD_PRELOAD=preload).stdout.startswith("1 - 1")


def test_a_name_at_the_end_of_its_page(kit, preload):
    kit.fake()
    app = kit.program(r"""
        #include <sys/mman.h>
        int main(void) { void *h = driver(); char *page = mmap(0, 8192, 3, 34, -1, 0); munmap(page + 4096, 4096);
            char *name = page + 4095; *name = 0; printf("%d", !dlsym(h, name));
            memcpy(name = page + 4094, "c", 2); printf("%d", !dlsym(h, name));
            memcpy(name = page + 4093, "cu", 3); printf("%d", !dlsym(h, name));
            memcpy(name = page + 4089, "cuInit", 7); printf("%d\n", !dlsym(h, name)); }
        """)
    assert kit.go(app, LD_PRELOAD=preload).stdout == "1110\n"


def test_dlopen_searches_for_its_caller(kit, preload, tmp_path):
    """The library is in the caller's folder, which only the caller's RUNPATH names."""
    inner = tmp_path / "inner"
    inner.mkdir()
    kit.build("int answer(void) { return 31; }", *SHARED, name="libbeside.so").rename(inner / "libbeside.so")
    kit.library(r"""
        #include <dlfcn.h>
        int find(void) { void *h = dlopen("libbeside.so", RTLD_NOW); int (*f)(void) = h ? dlsym(h, "answer") : 0;
            return f ? f() : -1; }
        """, "libcaller.so", f"-Wl,-rpath,{inner}")
    app = kit.program("""
        int main(void) { void *h = dlopen("libcaller.so", RTLD_NOW); int (*find)(void) = dlsym(h, "find");
            printf("%d %d\\n", find(), dlopen("libbeside.so", RTLD_NOW | RTLD_NOLOAD) != NULL);
            printf("%d %s\\n", dlopen("libgone.so", RTLD_NOW) != NULL, dlerror()); }
        """)
    assert kit.go(app, preload=False).stdout == kit.go(app, LD_PRELOAD=preload).stdout


def test_dlopen_in_another_namespace_stays_there(kit, preload):
    """A caller in another namespace has no preload. A library that it opens is loaded into its own
    namespace."""
    kit.library("int answer(void) { return 3; }", "libbeside.so")
    kit.library('#include <dlfcn.h>\nvoid *open_it(void) { return dlopen("libbeside.so", RTLD_NOW); }', "libin.so")
    app = kit.program("""
        int main(void) { void *h = dlmopen(LM_ID_NEWLM, "libin.so", RTLD_NOW);
            void *b = ((void *(*)(void))dlsym(h, "open_it"))(); Lmid_t id = -9; dlinfo(b, RTLD_DI_LMID, &id);
            printf("%d\\n", id != LM_ID_BASE && id != -9); }
        """)
    assert kit.go(app, LD_PRELOAD=preload).stdout == "1\n"


def test_lookup_in_a_handler_of_a_copy(run, compile_c):
    """The handler of SIGSEGV interrupts the engine. What it looks up are the hooks, as everywhere."""
    app = compile_c(r"""
        #include <assert.h>
        #include <dlfcn.h>
        #include <signal.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        enum { SIZE = 32 << 20, PAGE = 4096 };
        static void *driver, *found, *asked;
        static char *source;
        static int (*address)(const char *, void **, int, unsigned long, int *);
        static void on_fault(int signal) {
            found = dlsym(driver, "cuMemFreeHost");
            address("cuMemFreeHost", &asked, 12000, 0, NULL);
            mprotect(source + SIZE / 2, PAGE, PROT_READ); }
        #define CU(name) ((int (*)())dlsym(driver, #name))
        int main(void) { void *context, *pinned; unsigned long target;
            driver = dlopen("libcuda.so.1", RTLD_NOW);
            *(void **)&address = dlsym(driver, "cuGetProcAddress_v2");
            assert(!CU(cuInit)(0) && !CU(cuDevicePrimaryCtxRetain)(&context, 0) && !CU(cuCtxSetCurrent)(context));
            assert(!CU(cuMemAlloc_v2)(&target, (size_t)SIZE) && !CU(cuMemAllocHost_v2)(&pinned, (size_t)2 * SIZE));
            source = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(source, 1, SIZE);
            signal(SIGSEGV, on_fault);
            mprotect(source + SIZE / 2, PAGE, PROT_NONE);
            assert(!CU(cuMemcpyHtoD_v2)(target, source, (size_t)SIZE));
            printf("%d %d\n", found == (void *)CU(cuMemFreeHost), asked == found);
            return ((int (*)(void *))found)(pinned); }
        """, "-w", name="looks_up_in_handler")
    for preload in (False, True):
        done = run(app, preload=preload, LD_LIBRARY_PATH=SIM_DIR, GPUFEED_STAGE_THREADS=4, GPUFEED_STAGE_MIN=65536)
        assert (done.returncode, done.stdout) == (0, "1 1\n"), done.stderr


# --- RTLD_DEEPBIND (docs/hooks.md)
DEEP = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
const char *who(void) { return "library"; }
const char *ask(void) { return who(); }
int text(void) { char *s; int n = asprintf(&s, "%0300d", 5); free(s); char *l = NULL; size_t c = 0;
    FILE *f = fopen("/proc/self/status", "r"); getline(&l, &c, f); free(l); fclose(f); return n; }
"""
DEEP_APP = r"""
const char *who(void) { return "program"; }
int main(void) { void *h = dlopen("libdeep.so", RTLD_NOW | RTLD_DEEPBIND);
    printf("%s ", ((const char *(*)(void))dlsym(h, "ask"))());
    printf("%d\n", ((int (*)(void))dlsym(h, "text"))()); }
"""


@pytest.mark.parametrize("heap", ["replace", "off", None])
@pytest.mark.parametrize("call", ["dlopen(", "dlmopen(LM_ID_BASE, "])
def test_deepbind(kit, heap, call):
    kit.library(DEEP, "libdeep.so")
    app = kit.program(DEEP_APP.replace("dlopen(", call), "-rdynamic")
    assert kit.go(app, preload=False).stdout == "library 300\n"
    env = {"GPUFEED_HEAP": heap} if heap else {}
    assert kit.go(app, **env).stdout == "library 300\n"


DENY_MPROTECT = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static void deny(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(77); }
"""


@pytest.mark.parametrize("call", ["dlopen(", "dlmopen(LM_ID_BASE, "])
def test_deepbind_where_libc_cannot_be_led_here(kit, call):
    """If RTLD_DEEPBIND cannot be applied, dlopen loads the library without it, and does not abort. The heap
    starts before the filter."""
    kit.library(DEEP, "libdeep.so", "-Wl,-z,norelro")
    app = kit.program(DENY_MPROTECT + DEEP_APP.replace("{ void", "{ free(malloc(1)); deny(); void", 1).replace("dlopen(", call), "-rdynamic")
    result = kit.go(app)
    if result.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (result.returncode, result.stdout) == (0, "program 300\n")


# --- the machine code
def tail(preload, symbol, objdump="objdump"):
    out = subprocess.run([objdump, "-d", "--no-show-raw-insn", f"--disassemble={symbol}", str(preload)],
                         capture_output=True, text=True, check=True).stdout
    return [line.split("\t", 1)[1].split("#")[0].strip() for line in out.splitlines() if "\t" in line]


@pytest.mark.parametrize("symbol", ["dlsym", "dlvsym", "dlopen", "dlmopen", "gf_on_dlsym", "gf_on_dlvsym",
                                    "gf_on_dlopen", "gf_on_dlmopen"])
def test_the_original_is_jumped_to(preload, symbol):
    if platform.machine() != "x86_64":
        pytest.skip("reads x86-64 code")
    code = tail(preload, symbol)
    assert any(re.match(r"(notrack )?jmp\s+\*%(rax|r11)", line) for line in code)
    called = [re.search(r"<([^@>]+)", line).group(1) for line in code if line.startswith("call")]
    assert set(called) <= {"gf_jump_answer", "gf_jump_before_next", "gf_jump_prepare_dlsym",
                           "gf_jump_prepare_dlopen"}


@pytest.mark.skipif(not LONG, reason="tests/aarch64 runs an optimized build; this one is of the suite full")
def test_aarch64(run, tmp_path):
    """Builds the preload library for aarch64, and runs it under qemu's user emulation."""
    cc, qemu, root = "aarch64-linux-gnu-gcc", shutil.which("qemu-aarch64"), "/usr/aarch64-linux-gnu"
    if not shutil.which(cc) or not qemu:
        pytest.skip("needs gcc-aarch64-linux-gnu and qemu-user")
    preload = build_preload(tmp_path, [cc], "-O0", arch="aarch64")
    cross = [cc, "-D_GNU_SOURCE", "-w"]
    for name, text, flags in (("libself.so", SELF, []), ("libcuda.so.1", FAKE_DRIVER, ["-Wl,-Bsymbolic"])):
        (tmp_path / "x.c").write_text(text)
        subprocess.run([*cross, *SHARED, *flags, tmp_path / "x.c", "-o", tmp_path / name], check=True)
    (tmp_path / "app.c").write_text(r"""
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        extern int tool(int), cuTool(int);
        int main(void) {
            void *self = dlopen("libself.so", RTLD_NOW), *h = dlopen("libcuda.so.1", RTLD_NOW);
            printf("%d %d ", tool(0), cuTool(0));
            printf("%d ", ((int (*)(void))dlsym(self, "find_own"))());
            int (*init)(unsigned) = dlsym(h, "cuInit"); Dl_info i; dladdr(init, &i);
            printf("%d %d %s ", init(0), init(1), strrchr(i.dli_fname, '/') + 1);
            printf("%d %d %d\n", !!dlsym(h, "cuNope"), !!dlsym(h, ""), !!dlsym(h, "fake_calls")); }
        """)
    app = tmp_path / "app"
    subprocess.run([*cross, tmp_path / "app.c", "-o", app, f"-L{tmp_path}", "-l:libself.so"], check=True)
    result = run(qemu, "-L", root, "-E", f"LD_PRELOAD={preload}", "-E", f"LD_LIBRARY_PATH={tmp_path}", app,
                 preload=False)
    assert result.stdout == "7 9 5 0 1 libgpufeed.so 0 0 1\n", result.stderr
    code = tail(preload, "dlsym", "aarch64-linux-gnu-objdump")
    assert any(line.startswith("br\t") for line in code)


def test_it_stays_cheap(kit):
    """If nothing is substituted, no C code runs: a counter of the preload library stays unchanged.
    """
    kit.engine()
    kit.fake()
    app = kit.program("""
        int main(void) { void *h = driver(); ((int (*)(unsigned))dlsym(h, "cuInit"))(0);
            for (int i = 0; i < 50; i++) { dlsym(h, "fake_calls"); dlsym(RTLD_DEFAULT, "printf"); dlsym(h, "cublas"); } }
        """)
    assert counts(kit.go(app))["dlsym"] == 1
