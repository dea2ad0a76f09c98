# SPDX-License-Identifier: Apache-2.0
"""Calls before the loader has relocated the preload library, and programs that contain a sanitizer."""

import shutil
import subprocess

import pytest
from conftest import PRELOAD

MODES = ["on", "observe", "off"]

LIBRARY = r"""
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static int early = -1;
static int answer(void) { return early; }
static char *page(void) { return mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void nothing(void) {}
static void *kept;
static int call(void)
{
    void *block = NULL;
    cpu_set_t mask;
    (void)block, (void)mask;
    %s
}
static void *resolve(void) { early = call(); return answer; }
/* The loader resolves it behind the library's other addresses. */
static int chosen(void) __attribute__((ifunc("resolve")));
int result(void) { if (kept) free(kept); return chosen(); }
"""

# The call that a resolver makes, as the body of a function that must return 42.
CALLS = {
    "dlsym": 'return dlsym(RTLD_DEFAULT, "getpid") ? 42 : 1;',
    "dlsym next": 'return dlsym(RTLD_NEXT, "getpid") ? 42 : 1;',
    "dlopen": 'return dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD) ? 42 : 1;',
    "munmap": "return munmap(page(), 4096) ? 1 : 42;",
    "large munmap": "block = mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);"
                    "return munmap(block, 64 << 20) ? 1 : 42;",
    "sched_setaffinity": "sched_getaffinity(0, sizeof(mask), &mask);"
                         "return sched_setaffinity(0, sizeof(mask), &mask) ? 1 : 42;",
    "pthread_setaffinity_np": "sched_getaffinity(0, sizeof(mask), &mask);"
                              "return pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask) ? 1 : 42;",
    "posix_memalign": "return posix_memalign(&kept, 64, 100) || ((long)kept & 63) ? 1 : 42;",
    "aligned_alloc": "kept = aligned_alloc(64, 128); return kept && !((long)kept & 63) ? 42 : 1;",
    "memalign": "kept = memalign(64, 100); return kept && !((long)kept & 63) ? 42 : 1;",
    "valloc": "kept = valloc(100); return kept && !((long)kept & 4095) ? 42 : 1;",
    "pvalloc": "kept = pvalloc(100); return kept && !((long)kept & 4095) ? 42 : 1;",
    "reallocarray": "kept = reallocarray(NULL, 10, 10); return kept ? 42 : 1;",
    "malloc_usable_size": "kept = malloc(100); return malloc_usable_size(kept) >= 100 ? 42 : 1;",
    "malloc_trim": "malloc_trim(0); return 42;",
    "mallopt": "mallopt(M_ARENA_MAX, 2); return 42;",
    "mallinfo2": "mallinfo2(); return 42;",
    "pthread_atfork": "return pthread_atfork(nothing, nothing, nothing) ? 1 : 42;",
    "pthread_attr_setstacksize": "pthread_attr_t attr; size_t size; pthread_attr_init(&attr);"
                                 "return pthread_attr_setstacksize(&attr, 32768) ||"
                                 "pthread_attr_getstacksize(&attr, &size) || size != 32768 ? 1 : 42;",
    "system": 'return system("exit 42") >> 8;',
    "posix_spawn": "return posix_spawn(NULL, \"/no/such\", NULL, NULL, (char *[]){\"no\", NULL}, NULL) == ENOENT ? 42 : 1;",
    "execv": 'execv("/bin/true", (char *[]){"true", NULL}); return 1;',
    "_exit": 'write(1, "left\\n", 5); _exit(0);',
    "_Exit": 'write(1, "left\\n", 5); _Exit(0);',
}
MAIN = """
#include <stdio.h>
#include <stdlib.h>
int result(void);
int main(void) { free(malloc(1000)); printf("%d\\n", result()); return 0; }
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["library", "program"])
@pytest.mark.parametrize("call", CALLS)
def test_resolver_calls(run, compile_c, call, where, mode):
    """The resolver of an indirect function calls the preload library. When a library's resolver runs at the start,
    the preload library is not relocated yet. When the program's resolver runs, thread-local variables do not exist
    yet."""
    flags = ["-fno-builtin", "-Wl,-z,now", "-pthread"]
    if where == "program":
        program = compile_c(LIBRARY % CALLS[call] + MAIN, *flags)
    else:
        library = compile_c(LIBRARY % CALLS[call], "-shared", "-fPIC", *flags, name="libresolver.so")
        program = compile_c(MAIN, str(library), f"-Wl,-rpath,{library.parent}", *flags)
    run.alike(program, GPUFEED=mode)


SANITIZED = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *run(void *arg) { free(malloc(100000)); return arg; }
int main(void)
{
    pthread_t thread;
    char *text = strdup("a text"), *more = realloc(calloc(1, 1000), 200000);
    memset(more, 1, 200000);
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    munmap(mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
    printf("%s %s\n", text, dlsym(RTLD_DEFAULT, "getpid") ? "found" : "none");
    free(text);
    free(more);
    return 0;
}
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sanitizer", ["thread", "memory", "address", "undefined"])
@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_program_with_a_sanitizer(run, compile_c, compiler, sanitizer, mode):
    """A sanitizer's interceptors precede every other definition, and look up libc's functions at
    the first call."""
    if not shutil.which(compiler) or (compiler, sanitizer) == ("gcc", "memory"):
        pytest.skip(f"no {sanitizer} sanitizer of {compiler}'s")
    try:
        program = compile_c(SANITIZED, f"-fsanitize={sanitizer}", "-g", "-pthread", cc=compiler)
    except subprocess.CalledProcessError:
        pytest.skip(f"no {sanitizer} sanitizer of {compiler}'s")
    run.alike(program, GPUFEED=mode, ASAN_OPTIONS="verify_asan_link_order=0", TSAN_OPTIONS="report_bugs=0",
              timeout=60)
