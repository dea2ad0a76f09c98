# SPDX-License-Identifier: Apache-2.0
"""The malloc family under the preload, compared with glibc's."""

import pathlib
import platform
import re

import pytest

from conftest import APPS, PRELOAD, Runner, rounds

# Lines of malloc_semantics that differ from glibc 2.36, with the reason.
EXPECTED = {
    "free of locked pages keeps errno": ("0 errno 77", "1 errno 77", "glibc's trim of locked pages"),
    "trim twice": ("1 errno 77", "0 errno 77", "nothing was left to purge"),
}
# jemalloc's size classes; glibc adds its header instead.
USABLE = {0: 16, 7: 16, 14: 16, 21: 32, 28: 32, 35: 48, 42: 48, 49: 64, 56: 64, 63: 64}


def lines(text):
    return [line.split(": ", 1) for line in text.splitlines()]


def compare(under, plain):
    """Checks that each line is the same as glibc's, or differs as EXPECTED says."""
    ours, theirs = lines(under), lines(plain)
    assert [line[0] for line in ours] == [line[0] for line in theirs]
    for mine, glibc in zip(ours, theirs):
        size = re.fullmatch(r"usable size of (\d+)", mine[0])
        if size:
            assert int(mine[1]) == USABLE[int(size[1])]
        elif mine != glibc:
            assert mine[0] in EXPECTED, f"{mine[0]}: glibc {glibc[1]}, ours {mine[1]}"
            assert mine[1] == EXPECTED[mine[0]][1], mine


@pytest.fixture(scope="module")
def plain():
    """What the program prints without the library. glibc's malloc reads no setting of jemalloc's."""
    done = Runner()(APPS / "malloc_semantics", preload=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("conf", ["", "dirty_decay_ms:0,muzzy_decay_ms:0", "retain:false,tcache:false"])
def test_semantics(run, plain, conf):
    """The results are the same even if every free purges: madvise or munmap inside it may fail or set errno."""
    under = run(APPS / "malloc_semantics", MALLOC_CONF=conf)
    assert (under.returncode, under.stderr) == (0, "")
    compare(under.stdout, plain)


@pytest.mark.parametrize("setting", [{"GPUFEED": "off"}, {"GPUFEED": "observe"},
                                     {"GPUFEED_HEAP": "off"}, {"GPUFEED_HEAP": "wrap"}])
def test_left_to_the_program(run, plain, setting):
    under = run(APPS / "malloc_semantics", **setting)
    assert (under.returncode, under.stdout, under.stderr) == (0, plain, "")


def usable(run, compile_c, **extra):
    """The usable size of malloc(7): 24 in glibc, 16 in the library, 8 in plain jemalloc."""
    prog = compile_c("""#include <malloc.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) { printf("%zu", malloc_usable_size(malloc(7))); }""",
                     "-fno-builtin", name="usable")
    result = run(prog, **extra)
    assert (result.returncode, result.stderr) == (0, "")
    return int(result.stdout)


JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
needs_jemalloc = pytest.mark.skipif(not pathlib.Path(JEMALLOC).exists(),
                                    reason="no libjemalloc.so.2 on this machine")


@needs_jemalloc
def test_another_allocator_behind_is_left_in_place(run, compile_c):
    both = f"{PRELOAD}:{JEMALLOC}"
    assert usable(run, compile_c) == 16
    assert usable(run, compile_c, LD_PRELOAD=both) == 8
    assert usable(run, compile_c, LD_PRELOAD=both, GPUFEED_HEAP="replace") == 16
    assert usable(run, compile_c, LD_PRELOAD=both, GPUFEED="off") == 8


@needs_jemalloc
def test_another_allocator_before_serves(run, compile_c):
    assert usable(run, compile_c, LD_PRELOAD=f"{JEMALLOC}:{PRELOAD}") == 8


# This allocator has the functions that every allocator has, and exits when it gets a foreign block.
SMALL_ALLOCATOR = """
#include <stddef.h>
#include <string.h>
#include <unistd.h>
static _Alignas(16) char pool[64 << 20];
static size_t used;
void *malloc(size_t size) {
    size_t at = __atomic_fetch_add(&used, (size + 31) & ~15ul, 5) + 16;
    *(size_t *)(pool + at - 16) = size;
    return pool + at;
}
static size_t size_of(char *block) {
    if (block < pool || block >= pool + sizeof(pool)) _exit(77);
    return *(size_t *)(block - 16);
}
void free(void *block) { if (block) size_of(block); }
void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
void *realloc(void *block, size_t size) {
    size_t before = block ? size_of(block) : 0;
    return memcpy(malloc(size), block ? block : "", before < size ? before : size);
}
"""
BUILT_ON_THEM = """
#include <stdlib.h>
void free_sized(void *, size_t) __attribute__((weak));
void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
int main(void) {
    char *block = reallocarray(NULL, 2, 50);
    block[99] = 1;
    block = realloc(block, 200);
    block = reallocarray(block, 100, 50);
    int good = block[99] == 1;
    free(block);
    if (free_sized) free_sized(malloc(10), 10);
    if (free_aligned_sized) free_aligned_sized(malloc(16), 16, 16);
    return good ? 0 : 3;
}
"""


@pytest.mark.parametrize("setting", [{}, {"GPUFEED": "off"}, {"GPUFEED_HEAP": "off"}, {"GPUFEED_HEAP": "replace"}])
def test_functions_that_an_allocator_before_lacks_call_it(run, compile_c, setting):
    """The other allocator precedes the library, or is part of the program. jemalloc and tcmalloc, for example, lack
    reallocarray."""
    allocator = compile_c(SMALL_ALLOCATOR, "-shared", "-fPIC", "-fno-builtin", name="small.so")
    preloaded = compile_c(BUILT_ON_THEM, "-fno-builtin")
    linked = compile_c(SMALL_ALLOCATOR + BUILT_ON_THEM, "-fno-builtin", name="linked")
    assert run(preloaded, LD_PRELOAD=allocator).returncode == run(linked, preload=False).returncode == 0
    for done in run(preloaded, LD_PRELOAD=f"{allocator}:{PRELOAD}", **setting), run(linked, **setting):
        assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize("setting", [{}, {"GPUFEED_HEAP": "off"}])
def test_threads_and_forks(run, setting):
    result = run(APPS / "malloc_threads", timeout=250, ROUNDS=rounds(1500, 600), FORKS=rounds(200, 60), **setting)
    assert result.stderr == ""
    assert result.stdout == "churned\n{0} children of {0}\n".format(rounds(200, 60))


EARLY = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *kept[4];
static int answer(void) { return 42; }
%s
__attribute__((constructor(101))) static void early(void)
{
    kept[1] = malloc(30);
    strcpy(kept[1], "constructor");
    kept[2] = calloc(1, 1 << 20);
    kept[2] = realloc(kept[2], 3 << 20);
}
int result(void)
{
    int good = strcmp(kept[1], "constructor") == 0 && kept[2][0] == 0;
    if (kept[0]) { kept[0] = realloc(kept[0], 3000); good &= strcmp(kept[0], "ifunc") == 0; }
    free(kept[0]); free(kept[1]); free(kept[2]);
    return good ? answer() : 1;
}
"""
IFUNC = """
static void *resolve(void)
{
    kept[0] = malloc(30);
    memcpy(kept[0], "ifunc", 6);
    return answer;
}
int chosen(void) __attribute__((ifunc("resolve")));
"""


def early_program(compile_c, where):
    kinds = {"library": IFUNC, "constructor": "int chosen(void) { return answer(); }"}
    main = "int result(void); int chosen(void); int main(void) { return result() + chosen() != 84; }"
    if where == "program":
        return compile_c(EARLY % IFUNC + main, "-Wl,-z,now", "-fno-builtin", name="early-program")
    library = compile_c(EARLY % kinds[where], "-shared", "-fPIC", "-Wl,-z,now",
                        name=f"libearly-{where}.so")
    return compile_c(main, str(library), f"-Wl,-rpath,{library.parent}", "-Wl,-z,now",
                     name=f"early-{where}")


@pytest.mark.parametrize("setting", [{}, {"GPUFEED": "off"}, {"GPUFEED_HEAP": "replace"}])
@pytest.mark.parametrize("where", ["library", "program", "constructor"])
def test_before_any_constructor(run, compile_c, setting, where):
    """IFUNC resolvers allocate before the preload library is relocated, or before thread-local
    variables exist. Debian's libjemalloc crashes in both cases."""
    prog = early_program(compile_c, where)
    plain = run(prog, preload=False)
    under = run(prog, **setting)
    assert plain.returncode == 0
    assert (under.returncode, under.stdout, under.stderr) == (0, "", "")


def test_off_is_read_before_libc_has_an_environment(run, compile_c):
    """A library marked initfirst starts before libc does."""
    library = compile_c("""#include <malloc.h>
        #include <stdlib.h>
        #include <unistd.h>
        int size;
        __attribute__((constructor)) static void first(void)
        {
            size = environ ? 1 : malloc_usable_size(malloc(7));
        }""", "-shared", "-fPIC", "-fno-builtin", "-Wl,-z,initfirst", name="libinitfirst.so")
    prog = compile_c("extern int size; int main(void) { return size; }", str(library),
                     f"-Wl,-rpath,{library.parent}", name="initfirst")
    assert run(prog, preload=False).returncode == 24
    assert run(prog).returncode == 16
    assert run(prog, GPUFEED="off").returncode == 24


def test_an_interposer_is_not_called_during_the_decision(run, compile_c):
    """An interposer may allocate, and call dlsym, which the library hooks."""
    library = compile_c("""#include <link.h>
        static int asked;
        int dl_iterate_phdr(int (*see)(struct dl_phdr_info *, size_t, void *), void *closure)
        {
            return asked++;
        }
        int check(void) { return asked == 0; }""", "-shared", "-fPIC", name="libinside.so")
    prog = compile_c("""#include <stdlib.h>
        int check(void);
        int main(void) { free(malloc(10)); return check() ? 0 : 1; }""",
                     str(library), f"-Wl,-rpath,{library.parent}", "-fno-builtin", name="inside")
    result = run(prog)
    assert (result.returncode, result.stderr) == (0, "")


def deepbind_program(compile_c):
    library = compile_c("""#include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        int own(void) { return 1; }
        int work(void)
        {
            char *text, *line = NULL;
            size_t size = 0;
            if (asprintf(&text, "%d", 42) < 0) return 1;
            char *copy = strdup(text), *more = realloc(copy, 100000);
            FILE *stream = fmemopen("a line\\n", 7, "r");
            getline(&line, &size, stream);
            fclose(stream);
            free(text); free(more); free(line);
            free(aligned_alloc(64, 64)); free(calloc(3, 3)); free(malloc(30));
            return own() == 1 ? 0 : 2; /* and deep binding holds */
        }""", "-shared", "-fPIC", "-fno-builtin", name="libdeep.so")
    prog = compile_c("""#include <dlfcn.h>
        #include <stdlib.h>
        int own(void) { return 2; }
        int main(void)
        {
            void *handle = dlopen(getenv("DEEP"), RTLD_NOW | RTLD_DEEPBIND);
            int (*work)(void) = (int (*)(void))dlsym(handle, "work");
            return work();
        }""", "-rdynamic", name="deep")
    return library, prog


def test_a_deepbind_library_meets_one_heap(run, compile_c):
    """libc's asprintf calls the library's malloc, so the opened library must call the library's
    free."""
    library, prog = deepbind_program(compile_c)
    plain, under = run.both(prog, DEEP=library)
    assert plain.returncode == 0
    assert (under.returncode, under.stderr) == (0, "")


def test_names_of_libc_lead_here(run):
    """ctypes.CDLL("libc.so.6").malloc_trim(0) in training code trims the heap that serves malloc."""
    code = """
import ctypes
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
block = libc.malloc(ctypes.c_size_t(6 << 20))
ctypes.memset(block, 1, 6 << 20)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
libc.free(block)
before = resident()
assert libc.malloc_trim(0) == 1
assert before - resident() >= 5 << 20, (before, resident())
"""
    result = run("/usr/bin/python3", "-c", code)
    assert (result.returncode, result.stderr) == (0, "")


PROBES = {"/etc/malloc.conf", "/proc/sys/vm/overcommit_memory",
          "/sys/kernel/mm/transparent_hugepage/enabled"}


def files_of(run, prog, preload, **extra):
    result = run("strace", "-f", "-e", "trace=file,clone,clone3,fork,vfork", "-o", "/dev/stderr",
                 "env", *(f"{k}={v}" for k, v in extra.items()),
                 *([f"LD_PRELOAD={PRELOAD}"] if preload else []), prog, preload=False)
    trace = result.stderr[result.stderr.index(f'execve("{prog}"'):]
    assert result.returncode == 0
    assert not re.search(r"^\d+ +v?(clone3?|fork)\(", trace, re.M)
    names = re.findall(r'^\d+ +(?!execve)\w+\([^"\n]*"([^"]+)"', trace, re.M)
    return {name for name in names if "gpufeed" not in name or name in PROBES}


def test_opens_only_the_three_probes(run, compile_c):
    prog = compile_c("""#include <stdlib.h>
        int main(void) { for (int i = 0; i < 10000; i++) free(malloc(i * 100)); return 0; }""",
                     "-fno-builtin", name="opens")
    prog = str(prog)
    plain, under = files_of(run, prog, False), files_of(run, prog, True)
    assert under - plain <= PROBES | {"/etc/ld.so.preload"}, under - plain
    assert PROBES <= under
    assert files_of(run, prog, True, GPUFEED="off") - plain == set()


def test_nothing_happens_without_malloc(run, compile_c):
    prog = str(compile_c("int main(void) { return 0; }", name="quiet"))
    assert files_of(run, prog, True) - files_of(run, prog, False) == set()


def test_profiling_still_works(run, compile_c, tmp_path):
    prog = compile_c("""#include <stdlib.h>
        __attribute__((noinline)) void *leak(int i) { char *p = malloc(1000); p[0] = i; return p; }
        static void *kept[20000];
        int main(void) { for (int i = 0; i < 20000; i++) kept[i] = leak(i); return 0; }""",
                     "-fno-builtin", "-O1", name="leaks")
    result = run(prog, MALLOC_CONF=f"prof:true,prof_final:true,lg_prof_sample:12,prof_prefix:{tmp_path}/p")
    assert (result.returncode, result.stderr) == (0, "")
    dump = next(tmp_path.glob("p.*.heap")).read_text()
    stacks = re.findall(r"^@ (.*)$", dump, re.M)
    assert stacks and max(len(stack.split()) for stack in stacks) >= 4


def test_the_users_settings_win(run, compile_c):
    result = run(compile_c("#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }",
                           "-fno-builtin", name="stats"),
                 MALLOC_CONF="stats_print:true,stats_print_opts:mdablxeh,narenas:3")
    assert "opt.narenas: 3" in result.stderr
    assert "opt.oversize_threshold: 0" in result.stderr


def test_background_threads_when_asked_for(run):
    result = run("/usr/bin/python3", "-c",
                 "import os; x = bytearray(1 << 24); print(len(os.listdir('/proc/self/task')))",
                 MALLOC_CONF="background_thread:true")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 2


def test_needs_libc_alone(run):
    """The library needs only libc, and no symbol newer than glibc 2.34."""
    needed = run("readelf", "-d", PRELOAD, preload=False).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) == ["libc.so.6"]
    versions = run("readelf", "-V", PRELOAD, preload=False).stdout
    assert max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", versions)) <= 34


CLEARED = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
static long faults(void) { struct rusage r; getrusage(RUSAGE_SELF, &r); return r.ru_minflt; }
int main(void)
{
    for (size_t mib = 1; mib <= 32; mib += mib < 4 ? 1 : mib == 28 ? 3 : mib == 31 ? 1 : 4) {
        long last = 0;
        for (int i = 0; i < 5; i++) {
            const long before = faults();
            char *block = calloc(mib, 1 << 20);
            for (size_t at = 0; at < mib << 20; at++)
                if (block[at]) return 1;
            memset(block, 1, mib << 20);
            free(block);
            last = faults() - before;
        }
        printf("%zu MiB %ld\\n", mib, last);
    }
    return 0;
}
"""


@pytest.mark.parametrize("log", [{}, {"GPUFEED_LOG": "/dev/null"}], ids=["no-log", "log"])
def test_calloc_clears_used_pages(run, compile_c, log):
    """As in glibc, calloc clears used pages. If it purged them, each MiB would cause 256 page faults. Huge pages
    would hide this, so they are off. Without a log, the heap samples the pages; with a log, it calls mincore."""
    result = run(compile_c(CLEARED, "-O1", "-fno-builtin", name="cleared"), GPUFEED_PROFILE="inference",
                 **log)
    assert (result.returncode, result.stderr) == (0, "")
    told = re.findall(r"^(\d+) MiB (\d+)$", result.stdout, re.M)
    assert len(told) >= 8 and all(int(faults) < 64 for _, faults in told), result.stdout


SPARSE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define BLOCKS 32
#define BYTES ((size_t)8 << 20)
static long resident(void)
{
    char line[200];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) sscanf(line, "VmRSS: %ld", &kib);
    fclose(file);
    return kib >> 10;
}
int main(void)
{
    static char *block[BLOCKS];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            block[i] = calloc(1, BYTES);
            for (size_t at = 0; at < BYTES; at += BYTES / 16) {
                if (block[i][at] || block[i][at + 5000]) return 1;
                block[i][at] = 1;
            }
        }
        printf("%ld MiB\\n", resident());
        for (int i = 0; i < BLOCKS; i++) free(block[i]);
    }
    return 0;
}
"""


@pytest.mark.parametrize("log", [{}, {"GPUFEED_LOG": "/dev/null"}], ids=["no-log", "log"])
def test_calloc_populates_nothing(run, compile_c, log):
    """Sparsely used blocks stay sparse, even if they reuse memory."""
    result = run(compile_c(SPARSE, "-O1", "-fno-builtin", name="sparse"), GPUFEED_PROFILE="inference",
                 **log)
    assert (result.returncode, result.stderr) == (0, "")
    told = [int(mib) for mib in re.findall(r"^(\d+) MiB$", result.stdout, re.M)]
    assert len(told) == 4 and max(told) < 64, told


NO_COUNTER = """
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
int main(void) {
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 3;
    for (int turn = 0; turn < 3; turn++) {
        static char *volatile block[200];
        for (int i = 0; i < 200; i++) { block[i] = malloc(1 << 20); memset(block[i], 1, 1 << 20); }
        for (int i = 0; i < 200; i++) free(block[i]);
        for (int i = 0; i < 5000; i++) free(block[0] = malloc(10000));
    }
    return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 lets a program forbid its time stamp counter")
def test_reads_no_time_stamp_counter(run, compile_c):
    """After prctl(PR_SET_TSC), rdtsc raises SIGSEGV. The vDSO's precise clocks use it, too."""
    program = compile_c(NO_COUNTER)
    for done in run.both(program):
        assert (done.returncode, done.stderr) == (0, "")
