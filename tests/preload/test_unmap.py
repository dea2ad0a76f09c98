# SPDX-License-Identifier: Apache-2.0
"""munmap of shared memory: the pages are gone before, and a program sees nothing of it."""

import os
import pathlib
import re
import textwrap

import pytest

from conftest import DOOR
from pinkit import *

# Behind the door: says how much of what is about to be unmapped is in this process's tables.
SPY = r"""
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* As a kernel that finds no memory after it has emptied the new place; and another thread is there at once. */
static char *anothers;

/* A child has what is moved where it was, or nowhere. */
char *moving;
int forks, strays, moves;
static void fork_now(void)
{
    int status;
    pid_t child = fork();
    if (!child) {
        char line[512];
        int elsewhere = 0;
        FILE *maps = fopen("/proc/self/maps", "re");
        while (fgets(line, sizeof line, maps))
            elsewhere += strstr(line, "/dev/shm/gpufeed-test") && strtoul(line, NULL, 16) != (uintptr_t)moving;
        _exit(elsewhere);
    }
    waitpid(child, &status, 0);
    strays += status != 0;
    forks++;
}

void *mremap(void *at, size_t bytes, size_t to, int how, ...)
{
    va_list more;
    va_start(more, how);
    void *place = va_arg(more, void *);
    va_end(more);
    if (!getenv("REFUSES")) {
        void *moved = (void *)syscall(SYS_mremap, at, bytes, to, how, place);
        moves++;
        if (getenv("FORKS"))
            fork_now();
        return moved;
    }
    anothers = mmap(place, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    *anothers = 'x';
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Once a helper has asked, there is no room any more. */
int looks;
int statfs64(const char *path, struct statfs64 *ret)
{
    const int result = syscall(SYS_statfs, path, ret);
    looks += gettid() != getpid();
    if (looks && getenv("FILLS"))
        ret->f_bavail = 0;
    return result;
}

/* The helpers wait for the program. */
int holds;
int madvise(void *at, size_t bytes, int advice)
{
    while (__atomic_load_n(&holds, __ATOMIC_RELAXED) && gettid() != getpid())
        usleep(1000);
    if (advice != MADV_DONTFORK || gettid() != getpid() || !getenv("FORKS"))
        return syscall(SYS_madvise, at, bytes, advice);
    fork_now();
    const int result = syscall(SYS_madvise, at, bytes, advice);
    fork_now();
    return result;
}

int munmap(void *at, size_t bytes)
{
    if (bytes >= 32 << 20 && getenv("SPY")) {
        char line[512], name[16];
        unsigned long from = 0, to = 0, rss = 0, all = 0;
        FILE *maps = fopen("/proc/self/smaps", "re");
        while (maps && fgets(line, sizeof line, maps)) {
            unsigned long a, b;
            if (sscanf(line, "%lx-%lx %15s", &a, &b, name) == 3 && strchr(name, 'p') - strchr(name, 's'))
                from = a, to = b;
            else if (sscanf(line, "Rss: %lu kB", &rss) == 1 && from < (uintptr_t)at + bytes && (uintptr_t)at < to)
                all += rss;
        }
        fclose(maps);
        dprintf(2, "resident %lu\n", all >> 10);
        if (anothers) /* it is not left, or this faults */
            dprintf(2, "another's %c\n", *anothers);
    }
    return syscall(SYS_munmap, at, bytes);
}
"""

BODY = """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, ctypes.c_long]
    libc.munmap.argtypes = [c_void_p, c_size_t]
    SHARED, PRIVATE, FIXED, ANONYMOUS = 1, 2, 16, 32
    SIZE = 64 * MIB

    def memory(size=SIZE):
        fd = os.memfd_create("batch")
        os.ftruncate(fd, size)
        return fd

    def map_(fd, how=SHARED, size=SIZE, at=None):
        at = libc.mmap(at, size, 3, how | (FIXED if at else 0) | (ANONYMOUS if fd < 0 else 0), fd, 0)
        assert at != 2**64 - 1
        for i in range(0, size, MIB):
            ctypes.memset(at + i, i // MIB + 1, MIB)
        return at

    def unmap(at, size=SIZE):
        ctypes.set_errno(0)
        sys.stderr.flush()
        os.environ["SPY"] = "1"
        libc.setenv(b"SPY", b"1", 1)
        result = libc.munmap(at, size)
        error = ctypes.get_errno()
        libc.unsetenv(b"SPY")
        print("munmap", result, error)

    def right(data, first=0):
        return all(data[i * MIB] == data[i * MIB + MIB - 1] == first + i + 1 for i in range(len(data) // MIB))

    def helpers():
        return sum(open(f"/proc/self/task/{t}/comm").read() == "gpufeed-copy\\n" for t in os.listdir("/proc/self/task"))

    start()
    pinned(64 * MIB)
    end = time.monotonic() + 20
    while "libgpufeed" in os.environ.get("LD_PRELOAD", "") and helpers() < WANTED and time.monotonic() < end:
        time.sleep(0.01)
"""

CASES = {
    "all": ("at = map_(fd := memory()); unmap(at); print(right(os.pread(fd, SIZE, 0)))", 0),
    "twice": ("at = map_(memory()); unmap(at); unmap(at)", 0),
    "a part": ("at = map_(memory()); unmap(at, 32 * MIB)\n"
               "print(right(ctypes.string_at(at + 32 * MIB, 32 * MIB), 32))", 32),
    "a child's": ("at = map_(memory()); r, w = os.pipe()\n"
                  "if os.fork() == 0:\n"
                  "    os.read(r, 1); os._exit(7 if right(ctypes.string_at(at, SIZE)) else 8)\n"
                  "unmap(at); os.write(w, b'x'); print(os.wait()[1])", 0),
    "anonymous": ("unmap(map_(-1, SHARED))", 0),
    "private": ("unmap(map_(-1, PRIVATE))", 64),
    "private of a file": ("at = map_(fd := memory(), PRIVATE); unmap(at)", 64),
    "two": ("at = map_(memory(2 * SIZE), size=2 * SIZE); map_(memory(), at=at + SIZE); unmap(at, 2 * SIZE)", 128),
    "on disk": ("import tempfile\nfile = tempfile.TemporaryFile(dir=FOLDER); file.truncate(SIZE)\n"
                "unmap(map_(file.fileno()))", 64),
    "not a page's start": ("at = map_(fd := memory()); unmap(at + 8, SIZE - 8)\n"
                           "print(right(ctypes.string_at(at, SIZE)))", 64),
}


@pytest.fixture
def unmapped(program, compile_c, run, tmp_path):
    spy = compile_c(SPY, "-shared", "-fPIC", name="spy.so")

    def go(body, threads=4, **environment):
        text = PROLOGUE + f"WANTED, FOLDER = {threads - 1}, '/var/tmp'\n" + textwrap.dedent(BODY) + body
        command = ["/usr/bin/python3", "-c", text]
        environment["GPUFEED_STAGE_THREADS"] = threads
        done = (run(*command, sim=True, LD_PRELOAD=spy, preload=False),
                run(*command, sim=True, **{**environment, "LD_PRELOAD": f"{DOOR}:{spy}"}))
        resident = [[int(line.split()[1]) for line in one.stderr.splitlines() if line.startswith("resident")]
                    for one in done]
        assert done[0].returncode == 0, done[0].stderr
        assert (done[1].returncode, done[1].stdout) == (0, done[0].stdout), done[1].stderr
        return resident
    return go


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_to_unmap(unmapped, case):
    body, left = CASES[case]
    native, ours = unmapped(body)
    assert native[0] >= 64 and ours[0] == left, (native, ours)


@pytest.mark.parametrize("threads, environment", [(2, {}), (4, {"GPUFEED_STAGE": "off"}), (4, {"GPUFEED": "observe"})])
def test_only_where_helpers_can(unmapped, threads, environment):
    native, ours = unmapped(CASES["all"][0], threads, **environment) if "GPUFEED" not in environment else \
        unmapped("WANTED = 0\n" + CASES["all"][0], 1, **environment)
    assert native == ours == [64]


ASIDE = """
    def mapped(path):
        return sum(path in line for line in open("/proc/self/maps"))

    def file(size=SIZE):
        global path
        path = f"/dev/shm/gpufeed-test-{os.getpid()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(fd, size)
        os.unlink(path)
        return fd

    def gone():
        end = time.monotonic() + 20
        while mapped(path) and time.monotonic() < end:
            time.sleep(0.01)
        return mapped(path)

    libc.mincore.argtypes = [c_void_p, c_size_t, c_void_p]
    def is_free(at):
        there = ctypes.create_string_buffer(SIZE // 4096)
        return libc.mincore(at, SIZE, there), ctypes.get_errno()
"""

ASIDE_CASES = {
    "all": "at = map_(fd := file()); unmap(at); print(is_free(at)); print(right(os.pread(fd, SIZE, 0)), gone())",
    "again and again": "for i in range(20):\n    at = map_(fd := file()); unmap(at); os.close(fd)\nprint(gone())",
    "twice": "at = map_(file()); unmap(at); unmap(at); print(gone())",
    "mapped anew there": ("at = map_(fd := file()); unmap(at)\n"
                          "print(map_(fd, at=at) == at, right(ctypes.string_at(at, SIZE)), mapped(path) > 0)"),
    "a child": ("at = map_(fd := file()); unmap(at)\n"
                "if os.fork() == 0:\n    print(mapped(path), is_free(at), flush=True); os._exit(0)\n"
                "print(os.wait()[1], gone())"),
    "another process's": ("at = map_(fd := file()); r, w = os.pipe()\n"
                          "if os.fork() == 0:\n"
                          "    os.read(r, 1); os._exit(7 if right(ctypes.string_at(at, SIZE)) else 8)\n"
                          "unmap(at); os.write(w, b'x'); print(os.wait()[1], gone())"),
}


def has_room():
    free = os.statvfs("/dev/shm")
    available = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return free.f_bavail * free.f_frsize >= 32 * 64 << 20 and int(available[1]) >= 3 << 20


roomy = pytest.mark.skipif(not has_room(), reason="less than 2 GiB in /dev/shm, or of memory")

LOCKED = """
    import fcntl, re, resource
    def locked():
        return re.search(r"VmLck:\\s+(\\d+)", open("/proc/self/status").read())[1]
"""

# What others would meet, or the process itself, while the mapping is somewhere else.
NOT_ASIDE_CASES = {
    "has a name, and a lock": (
        "path = f'/dev/shm/gpufeed-test-named-{os.getpid()}'\n"
        "fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600); again = os.open(path, os.O_RDWR)\n"
        "try:\n"
        "    os.ftruncate(fd, SIZE); fcntl.flock(fd, fcntl.LOCK_EX); at = map_(fd); os.close(fd); unmap(at)\n"
        "    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB); print('unlocked')\n"
        "finally:\n"
        "    os.unlink(path)"),
    "little address space": (
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 46, resource.RLIM_INFINITY))\n"
        "at = map_(file()); unmap(at); print(mapped(path))"),
    "refused": (
        "libc.setenv(b'REFUSES', b'1', 1)\n"
        "at = map_(fd := file()); unmap(at); print(right(os.pread(fd, SIZE, 0)), mapped(path))\n"
        "libc.unsetenv(b'REFUSES'); at = map_(fd); unmap(at); print(mapped(path))"),
}


@pytest.mark.parametrize("case", NOT_ASIDE_CASES)
def test_what_would_be_met_is_not_moved_aside(unmapped, case):
    native, ours = unmapped(textwrap.dedent(ASIDE + LOCKED) + NOT_ASIDE_CASES[case])
    assert set(native) == {64} and ours == [0] * len(native), (native, ours)


@roomy
def test_what_is_moved_aside_is_locked_no_more(unmapped):
    native, ours = unmapped(textwrap.dedent(ASIDE + LOCKED) + """
holds = c_int.in_dll(libc, "holds")
before, holds.value = locked(), 1
at = map_(file())
locks = libc.mlock(c_void_p(at), c_size_t(SIZE)) == 0
unmap(at); print(locked() == before, locks)
holds.value = 0; print(gone())
""")
    assert native == [64] and ours == []


@pytest.mark.parametrize("case", ASIDE_CASES)
@roomy
def test_a_file_in_shared_memory_is_moved_aside(unmapped, case):
    native, ours = unmapped(textwrap.dedent(ASIDE) + ASIDE_CASES[case])
    assert native and not any(ours), (native, ours)
    # munmap is called for what is not there, and where helpers do not come to it.
    assert len(ours) in {"again and again": range(17), "twice": [1]}.get(case, [0]), ours


@roomy
def test_the_address_space_is_asked_about_each_time(unmapped):
    native, ours = unmapped(textwrap.dedent(ASIDE + LOCKED) + """
at = map_(first := file()); other = map_(file())
unmap(at); resource.setrlimit(resource.RLIMIT_AS, (1 << 46, resource.RLIM_INFINITY)); unmap(other)
print(gone())
""")
    assert native == [64, 64] and ours == [0]


@roomy
def test_the_helper_looks_for_room_behind_each_one(unmapped):
    """A loop that unmaps one after the other never looks itself, and hears of a shortage all the same."""
    native, ours = unmapped(textwrap.dedent(ASIDE) + """
moves, looks = c_int.in_dll(libc, "moves"), c_int.in_dll(libc, "looks")
libc.setenv(b"FILLS", b"1", 1)
preloaded, met = "libgpufeed" in os.environ["LD_PRELOAD"], False
for i in range(50 if preloaded else 0):
    before, at = moves.value, map_(fd := file())
    libc.munmap(at, SIZE); os.close(fd)
    met = i > 0 and moves.value == before
    if met:
        break
    gone()
print(met == preloaded, (looks.value > 0) == preloaded)
unmap(map_(file()))
""")
    assert native == [64] and ours == [0]


@roomy
def test_a_child_forked_in_the_midst_has_it_where_it_was_or_nowhere(unmapped):
    native, ours = unmapped(textwrap.dedent(ASIDE) + """
forks, strays = c_int.in_dll(libc, "forks"), c_int.in_dll(libc, "strays")
at = map_(file()); c_void_p.in_dll(libc, "moving").value = at
libc.setenv(b"FORKS", b"1", 1); unmap(at); libc.unsetenv(b"FORKS")
print(strays.value, gone(), (forks.value > 1) == ("libgpufeed" in os.environ["LD_PRELOAD"]))
""")
    assert native == [64] and ours == []


def test_without_room_it_is_not_moved(unmapped):
    free = os.statvfs("/dev/shm")
    size = free.f_bavail * free.f_frsize // 16 >> 21 << 21
    if not 64 << 20 <= size <= 256 << 20:
        size = 64 << 20
        if free.f_bavail * free.f_frsize > 32 * size:
            pytest.skip("/dev/shm is too large to be filled")
    native, ours = unmapped(textwrap.dedent(ASIDE) +
                            f"SIZE = {size}; at = map_(file(SIZE), size=SIZE); unmap(at, SIZE); print(gone())")
    assert native == [size >> 20] and ours == [0]
