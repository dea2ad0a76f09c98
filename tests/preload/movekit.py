# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the transfer hooks: a driver that prints its calls, an engine that prints
its calls, and a program."""

import re

import pytest
from preloadkit import *

# Parameters: p address or size, i int, o out-parameter, s stream.
COPY = ["cuMemcpy ppp", "cuMemcpy_ptds ppp", "cuMemcpyAsync ppps", "cuMemcpyAsync_ptsz ppps",
        "cuMemcpyHtoD_v2 ppp", "cuMemcpyHtoD_v2_ptds ppp", "cuMemcpyHtoDAsync_v2 ppps",
        "cuMemcpyHtoDAsync_v2_ptsz ppps", "cuMemcpyDtoH_v2 ppp", "cuMemcpyDtoH_v2_ptds ppp",
        "cuMemcpyDtoHAsync_v2 ppps", "cuMemcpyDtoHAsync_v2_ptsz ppps"]
PINNED = ["cuMemHostAlloc opi", "cuMemAllocHost_v2 op", "cuMemFreeHost p", "cuMemHostRegister ppi",
          "cuMemHostRegister_v2 ppi", "cuMemHostUnregister p", "cuMemHostGetFlags op",
          "cuPointerGetAttribute opp", "cuPointerGetAttributes pppp"]
CONTEXT = ["cuCtxDestroy p", "cuCtxDestroy_v2 p", "cuCtxDetach p"]
PRIMARY = ["cuDevicePrimaryCtxRelease i", "cuDevicePrimaryCtxRelease_v2 i",
           "cuDevicePrimaryCtxReset i", "cuDevicePrimaryCtxReset_v2 i"]
GREEN = ["cuGreenCtxDestroy p"]
BLOCK = ["cuMemcpy2D_v2 p", "cuMemcpy2D_v2_ptds p", "cuMemcpy2DUnaligned_v2 p",
         "cuMemcpy2DUnaligned_v2_ptds p", "cuMemcpy2DAsync_v2 ps", "cuMemcpy2DAsync_v2_ptsz ps",
         "cuMemcpy3D_v2 p", "cuMemcpy3D_v2_ptds p", "cuMemcpy3DAsync_v2 ps", "cuMemcpy3DAsync_v2_ptsz ps"]
# b: an array of a batch
BATCH = ["cuMemcpyBatchAsync bbbpbbpps", "cuMemcpyBatchAsync_ptsz bbbpbbpps",
         "cuMemcpyBatchAsync_v2 bbbpbbps", "cuMemcpyBatchAsync_v2_ptsz bbbpbbps"]
# The functions of CUDA 2, with 32-bit sizes, which are not hooked.
OLD = ["cuMemcpyHtoD ppp", "cuMemcpyDtoH ppp", "cuMemcpyHtoDAsync ppps", "cuMemcpyDtoHAsync ppps",
       "cuMemAllocHost op", "cuMemcpy2D p", "cuMemcpy2DUnaligned p", "cuMemcpy2DAsync ps",
       "cuMemcpy3D p", "cuMemcpy3DAsync ps"]
ROWS = [row.split() for row in COPY + PINNED + CONTEXT + PRIMARY + GREEN + BLOCK + BATCH + OLD]
RESULT = {name: 100 + i for i, (name, _) in enumerate(ROWS)}
for name in ("cuMemHostGetFlags", "cuPointerGetAttribute", "cuPointerGetAttributes"):
    RESULT[name] = 0 # the hooks replace flags only if the driver succeeds
SLOT = 0x70000000
OWN = "driver cuMemcpyHtoD_v2 1000 2000 1000"  # the engine's own call, which is passed through


def requests():
    """{export: the arguments of cuGetProcAddress}, from the simulated driver's lists."""
    entries = "".join(path.read_text() for path in (SOURCE / "tests" / "sim").glob("entries*.def"))
    return {export: (name, int(version), 2 if flavour == "thread" else 1) for
            export, name, version, flavour in
            re.findall(r"^SIM_ENTRY\((\w+), (\w+), (\d+), (\w+)\)$", entries, re.M)}


# The driver prints its arguments, and refuses the member whose source is REFUSE.
BATCH_BODY = r"""
    printf("driver %s stream=%lx", "@NAME@", s);
    for (size_t i = 0, k = 0; i < n; i++) {
        k += k + 1 < kinds && first[k + 1] == i;
        printf(" %lx<%lx:%lx/%d", dst[i], src[i], size[i], attrs[k].order); }
    puts("");
    const char *refuse = getenv("REFUSE");
    for (size_t i = 0; refuse && i < n; i++)
        if (src[i] == strtoul(refuse, NULL, 16)) { @FAIL@ return 1; }
    return 0; }
"""


def batch_function(name):
    fail = "" if "_v2" in name else "size_t *failed, "
    body = BATCH_BODY.replace("@NAME@", name).replace("@FAIL@", "if (failed) *failed = i;" if fail else "")
    return (f"int {name}(size_t *dst, size_t *src, size_t *size, size_t n, struct attrs *attrs, "
            f"size_t *first, size_t kinds, {fail}size_t s) {{{body}")


def fake_driver():
    text = ["#include <errno.h>", "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>",
            "struct attrs { int order, hints[4]; unsigned flags; };",
            "int cuInit(unsigned f) { return 0; }"]
    for name, kinds in ROWS:
        if "b" in kinds:
            text.append(batch_function(name))
            continue
        params = ", ".join(f"{'int' if kind == 'i' else 'unsigned long'} a{i}"
                           for i, kind in enumerate(kinds))
        shown = " ".join("%d" if kind == "i" else "%lx" for kind in kinds)
        values = ", ".join(f"a{i}" for i in range(len(kinds)))
        text.append(f'int {name}({params}) {{ printf("driver {name} {shown}\\n", {values}); '
                    f'return {RESULT[name]}; }}')
    text.append("""static const struct { const char *name; int version, flags; void *at; } table[] = {
        {"cuInit", 2000, 1, cuInit},""")
    for name, _ in ROWS:
        asked, version, flags = requests()[name]
        text.append(f'{{"{asked}", {version}, {flags}, {name}}},')
    text.append("""};
    int cuGetProcAddress_v2(const char *name, void **pfn, int version, unsigned long flags, int *status) {
        int best = 0; *pfn = NULL;
        for (int i = 0; i < sizeof(table) / sizeof(*table); i++)
            if (!strcmp(table[i].name, name) && table[i].version <= version && table[i].version > best &&
                table[i].flags == flags) { *pfn = table[i].at; best = table[i].version; }
        return 0; }""")
    return "\n".join(text)


# prog way call..., where call is symbol,argument,... in hexadecimal, or poke,address,word,...
PROGRAM = r"""
#include <sys/mman.h>
typedef int get_fn(const char *, void **, int, unsigned long, int *);
static const struct { const char *symbol, *name; int version, flags; void *linked; } table[] = {
@TABLE@};
static void *find(const char *way, int i) {
    void *h = driver(), *found = NULL;
    if (!strcmp(way, "linked")) return table[i].linked;
    if (!strcmp(way, "dlsym")) return dlsym(h, table[i].symbol);
    ((get_fn *)dlsym(h, "cuGetProcAddress_v2"))(table[i].name, &found, table[i].version,
                                                table[i].flags, NULL);
    return found; }
int main(int argc, char **argv) {
    void **slot = mmap((void *)0x70000000, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    ((int (*)(unsigned))dlsym(driver(), "cuInit"))(0);
    for (int c = 2; c < argc; c++) {
        char *save, *word = strtok_r(argv[c], ",", &save), *symbol = word;
        unsigned long a[40] = {0}; int n = 0;
        for (; (word = strtok_r(NULL, ",", &save)); n++) a[n] = strtoul(word, NULL, 16);
        if (!strcmp(symbol, "poke")) memcpy((void *)a[0], a + 1, (n - 1) * 8);
        for (int i = 0; i < sizeof(table) / sizeof(*table); i++) {
            if (strcmp(table[i].symbol, symbol)) continue;
            int (*call)() = find(argv[1], i);
            errno = 33; *slot = (void *)0x55;
            int result = call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]), e = errno, cancel;
            pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
            printf("%s = %d errno=%d slot=%p cancel=%d by %s\n", symbol, result, e, *slot, cancel, owner(call));
        } } }
"""


class Moving:
    def __init__(self, kit):
        self.kit = kit
        text = (SOURCE / "tests" / "preload" / "moving_engine.c").read_text()
        kit.library(text, "libgpufeed-engine.so", *INCLUDES)
        kit.library(fake_driver(), "libcuda.so.1", "-Wl,-Bsymbolic")
        externs = "".join(f"extern int {name}();\n" for name, _ in ROWS)
        table = "".join('{"%s", "%s", %d, %d, %s},\n' % (name, *requests()[name], name)
                        for name, _ in ROWS)
        self.program = kit.program(externs + PROGRAM.replace("@TABLE@", table), f"-L{kit.folder}",
                                   "-l:libcuda.so.1")

    def go(self, way, *calls, **env):
        return self.kit.go(self.program, way, *calls, **env)

    def same(self, *calls, **env):
        """Checks for the same output as without the library, except for the address of the caller."""
        with_library = self.go("dlsym", *calls, **env)
        without = self.go("dlsym", *calls, preload=False, REFUSE=env.get("REFUSE", ""))
        assert [re.sub(" by .*", "", line) for line in own(with_library)] == \
               [re.sub(" by .*", "", line) for line in own(without)]
        return with_library


@pytest.fixture(scope="module")
def moving(compile_c, tmp_path_factory):
    from conftest import Runner
    return Moving(Kit(Runner(), compile_c, tmp_path_factory.mktemp("moving")))


def heard(result):
    """The calls of the engine, in order."""
    return re.findall(r"^\[((?!bytes|declined)\w+ .*)\]$", result.stderr, re.M)


def own(result):
    """The lines that the driver and the program printed, without the engine's own calls."""
    return [line for line in result.stdout.splitlines() if line != OWN]


def poke(address, *words):
    return ",".join(["poke", f"{address:x}"] + [f"{word & (1 << 64) - 1:x}" for word in words])


WAYS = ["linked", "dlsym", "asked"]
