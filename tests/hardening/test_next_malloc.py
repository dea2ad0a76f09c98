# SPDX-License-Identifier: Apache-2.0
"""A library that finds malloc by RTLD_NEXT and stores it gets blocks from the same heap as the program."""

import pytest
from conftest import HERE, PRELOAD

LIBRARY = r"""
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static struct {
    void *(*malloc)(size_t); void *(*calloc)(size_t, size_t); void *(*realloc)(void *, size_t); void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t); void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t); void *(*valloc)(size_t); size_t (*malloc_usable_size)(void *);
} kept;
static void *find(const char *name) { %s }
static void look(void)
{
    kept.malloc = find("malloc"); kept.calloc = find("calloc"); kept.realloc = find("realloc");
    kept.free = find("free"); kept.posix_memalign = find("posix_memalign");
    kept.aligned_alloc = find("aligned_alloc"); kept.memalign = find("memalign"); kept.valloc = find("valloc");
    kept.malloc_usable_size = find("malloc_usable_size");
}
%s
static int check(size_t size)
{
    void *block[8], *aligned;
    block[0] = kept.malloc(size); block[1] = kept.calloc(1, size); block[2] = kept.realloc(NULL, size);
    block[3] = kept.aligned_alloc(64, (size + 63) & -64); block[4] = kept.memalign(64, size);
    block[5] = kept.valloc(size); block[6] = strdup("text");
    if (kept.posix_memalign(&block[7], 64, size)) return 1;
    for (int i = 0; i < 8; i++) {
        if (!block[i] || malloc_usable_size(block[i]) != kept.malloc_usable_size(block[i])) return 2;
        if (!(block[i] = realloc(block[i], 2 * size))) return 3;
        if (i %% 2) free(block[i]); else kept.free(block[i]);
    }
    aligned = malloc(size);
    kept.free(kept.realloc(aligned, 3 * size));
    return 0;
}
int work(void)
{
    if (!kept.malloc) look();
    for (size_t size = 8; size < 8 << 20; size *= 3)
        if (check(size)) return 1;
    puts("one heap");
    return 0;
}
"""
WAYS = {
    "next": "return dlsym(RTLD_NEXT, name);",
    "next of a version": 'return dlvsym(RTLD_NEXT, name, strcmp(name, "aligned_alloc") ? "GLIBC_2.2.5" : "GLIBC_2.16");',
    "default": "return dlsym(RTLD_DEFAULT, name);",
    "libc": 'return dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), name);',
}
WHEN = {"late": "", "constructor": "__attribute__((constructor)) static void start(void) { look(); }"}


@pytest.mark.parametrize("mode", [{}, {"GPUFEED": "off"}, {"GPUFEED_HEAP": "off"}])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("way", WAYS)
def test_linked_library(run, compile_c, way, when, mode):
    library = compile_c(LIBRARY % (WAYS[way], WHEN[when]), "-shared", "-fPIC", "-fno-builtin", name="libkeeps.so")
    program = compile_c("int work(void); int main(void) { return work(); }", str(library),
                        f"-Wl,-rpath,{library.parent}")
    run.alike(program, **mode)


def test_opened_library(run, compile_c):
    library = compile_c(LIBRARY % (WAYS["next"], WHEN["constructor"]), "-shared", "-fPIC", "-fno-builtin",
                        name="libkeeps.so")
    program = compile_c("#include <dlfcn.h>\nint main(int argc, char **argv) {"
                        "int (*work)(void) = dlsym(dlopen(argv[1], RTLD_NOW), \"work\"); return work(); }")
    run.alike(program, library)


def test_fork_beside_the_first_dlopen(run, compile_here):
    """The child does not wait for the parent's thread that has begun to change libc's symbol table."""
    run.alike(compile_here("forked_dlopen.c", "-fno-builtin", f"-I{HERE}", "-pthread"))


def test_handler_in_the_first_dlopen(run, compile_c, compile_here):
    """A handler that has interrupted the change of libc's symbol table does not wait for its end. Afterwards,
    RTLD_DEEPBIND has its effect."""
    program = compile_here("handled_dlopen.c", "-fno-builtin", "-rdynamic", f"-I{HERE}")
    run.alike(program)
    deep = compile_c("int which(void) { return 2; }\nint ask(void) { return which(); }", "-shared", "-fPIC",
                     name="libasks.so")
    run.alike(program, deep)


def test_library_that_is_opened_late(run, compile_here):
    """The search for an original reads no object that another thread may unload, except under the loader's lock."""
    done = run(compile_here("opened_late.c", "-fno-builtin", "-pthread"), PRELOAD, preload=False,
               GLIBC_TUNABLES="glibc.rtld.optional_static_tls=65536")
    assert (done.returncode, done.stdout) == (0, "0 locked\n"), done.stderr
