# SPDX-License-Identifier: Apache-2.0
"""munmap of PyTorch's shared memory: the library removes the pages first, and the program sees no difference. A helper
frees a deleted file's pages after the call has returned, unless GPUFEED_UNMAP=now. All other mappings, and those with
few pages, are left to munmap: for those a munmap once took a thousand times as long, because the library looked at each
of the program's descriptors."""

import ctypes
import os
import platform
import textwrap

import pytest

from conftest import PRELOAD
from pinkit import *

# Loaded after the preload library. Prints how much of the range to unmap is in this process's page
# tables.
SPY = r"""
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
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

/* How often the library empties a part of a range. */
int calls;
int madvise(void *at, size_t bytes, int advice)
{
    calls += advice == MADV_DONTNEED && bytes >= 1 << 20;
    return syscall(SYS_madvise, at, bytes, advice);
}

/* How many mappings of one page of a tensor's file this process has. */
static int kept(void)
{
    char line[512];
    unsigned long from, to;
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        found += strstr(line, "/dev/shm/torch_") && sscanf(line, "%lx-%lx", &from, &to) == 2 &&
                 to - from == (unsigned long)sysconf(_SC_PAGESIZE);
    fclose(maps);
    return found;
}

static int scan_library(struct dl_phdr_info *info, size_t size, void *sum)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const char *at = (const char *)(info->dlpi_addr + part->p_vaddr);
        if (part->p_type == PT_LOAD && part->p_flags & PF_W)
            for (size_t j = 0; j < part->p_memsz; j += 64)
                *(volatile char *)sum += at[j];
    }
    return 0;
}

/* Reads the data of all libraries, as a collector of garbage does. */
int scan(void)
{
    char sum = 0;
    return dl_iterate_phdr(scan_library, &sum);
}

int munmap(void *at, size_t bytes)
{
    if (bytes >= 16 << 20 && getenv("SPY")) {
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
        dprintf(2, "resident %lu\nkept %d\n", all >> 10, kept());
        if (getenv("FORK")) {
            pid_t child = fork();
            if (child == 0)
                _exit(kept() + scan());
            int status;
            waitpid(child, &status, 0);
            dprintf(1, "a child keeps %d\n", status);
        }
        if (getenv("FAIL")) {
            errno = EPERM;
            return -1;
        }
    }
    return syscall(SYS_munmap, at, bytes);
}
"""

BODY = """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, ctypes.c_long]
    libc.munmap.argtypes = [c_void_p, c_size_t]
    SHARED, PRIVATE, FIXED, ANONYMOUS, FIXED_NOREPLACE = 1, 2, 16, 32, 0x100000
    SIZE = 32 * MIB

    def memory(size=SIZE, name="torch"):
        path = f"/dev/shm/{name}_{os.getpid()}_{os.urandom(4).hex()}_0"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(fd, size)
        os.unlink(path)
        return fd

    def memfd(size=SIZE):
        fd = os.memfd_create("batch")
        os.ftruncate(fd, size)
        return fd

    def map_(fd, how=SHARED, size=SIZE, at=None, fixed=FIXED):
        end = time.monotonic() + 20
        wanted = at
        while True:
            at = libc.mmap(wanted, size, 3, how | (fixed if wanted else 0) | (ANONYMOUS if fd < 0 else 0), fd, 0)
            # A thread of the library may have a stack there for a moment.
            if at != 2**64 - 1 or fixed == FIXED or time.monotonic() > end:
                break
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
        names = []
        for task in os.listdir("/proc/self/task"):
            try:
                names.append(open(f"/proc/self/task/{task}/comm").read())
            except OSError:
                pass # the thread has ended
        return names.count("gpufeed-copy\\n")

    start()
    pinned(LARGE)
    end = time.monotonic() + 20
    while "libgpufeed" in os.environ.get("LD_PRELOAD", "") and helpers() < WANTED and time.monotonic() < end:
        time.sleep(0.01)
"""

CASES = {
    "all": ("at = map_(fd := memory()); unmap(at); print(right(os.pread(fd, SIZE, 0)))", 0),
    "twice": ("at = map_(memory()); unmap(at); unmap(at)", 0),
    "a part": ("at = map_(memory(2 * SIZE), size=2 * SIZE); unmap(at)\n"
               "print(right(ctypes.string_at(at + SIZE, SIZE), 32))", 32),
    "a child's": ("at = map_(memory()); r, w = os.pipe()\n"
                  "if os.fork() == 0:\n"
                  "    os.read(r, 1); os._exit(7 if right(ctypes.string_at(at, SIZE)) else 8)\n"
                  "unmap(at); os.write(w, b'x'); print(os.wait()[1])", 0),
    "anonymous": ("unmap(map_(-1, SHARED))", 32),
    "a memfd": ("unmap(map_(memfd()))", 32),
    "another program's file": ("unmap(map_(memory(name='psm')))", 32),
    "private": ("unmap(map_(-1, PRIVATE))", 32),
    "private of a file": ("at = map_(fd := memory(), PRIVATE); unmap(at)", 32),
    "two": ("at = map_(memory(2 * SIZE), size=2 * SIZE); map_(memory(), at=at + SIZE); unmap(at, 2 * SIZE)", 64),
    "on disk": ("import tempfile\nfile = tempfile.TemporaryFile(dir=FOLDER); file.truncate(SIZE)\n"
                "unmap(map_(file.fileno()))", 32),
    "not a page's start": ("at = map_(fd := memory(2 * SIZE), size=2 * SIZE); unmap(at + 8, 2 * SIZE - 8)\n"
                           "print(right(ctypes.string_at(at, 2 * SIZE)))", 64),
}


@pytest.fixture
def unmapped(program, compile_c, run, tmp_path):
    spy = compile_c(SPY, "-shared", "-fPIC", name="spy.so")

    def go(body, threads=4, kept=0, **environment):
        """Returns how many MiB of each range were resident when libc's munmap was called, natively and with the library,
        which keeps `kept` files open at this time."""
        helpers = threads - 1 if threads > 2 else 0
        text = PROLOGUE + f"WANTED, FOLDER = {helpers}, '/var/tmp'\n" + textwrap.dedent(BODY) + body
        command = ["/usr/bin/python3", "-c", text]
        environment["GPUFEED_STAGE_THREADS"] = threads
        done = (run(*command, sim=True, LD_PRELOAD=spy, preload=False),
                run(*command, sim=True, **{**environment, "LD_PRELOAD": f"{PRELOAD}:{spy}"}))
        found = [{word: [int(line.split()[1]) for line in one.stderr.splitlines() if line.startswith(word)]
                  for word in ("resident", "kept")} for one in done]
        assert done[0].returncode == 0, done[0].stderr
        assert (done[1].returncode, done[1].stdout) == (0, done[0].stdout), done[1].stderr
        assert not any(found[0]["kept"]) and set(found[1]["kept"]) == {kept}, found
        return found[0]["resident"], found[1]["resident"]
    return go


def has_room():
    free = os.statvfs("/dev/shm")
    return free.f_bavail * free.f_frsize >= 64 << 20


pytestmark = pytest.mark.skipif(not has_room(), reason="less than 64 MiB in /dev/shm")


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_to_unmap(unmapped, case):
    body, left = CASES[case]
    native, ours = unmapped(body)
    assert native[0] >= 32 and ours[0] == left, (native, ours)


@pytest.mark.parametrize("threads, environment", [(2, {}), (4, {"GPUFEED_STAGE": "off"}), (4, {"GPUFEED": "observe"})])
def test_only_where_helpers_can(unmapped, threads, environment):
    native, ours = unmapped(CASES["all"][0], threads, **environment) if "GPUFEED" not in environment else \
        unmapped("WANTED = 0\n" + CASES["all"][0], 1, **environment)
    assert native == ours == [32]


FILE = """
    path = f"/dev/shm/torch_{os.getpid()}_gpufeed"

    def file(size=SIZE):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(fd, size)
        os.unlink(path)
        return fd

    def mapped():
        return sum(path in line for line in open("/proc/self/maps"))

    def blocks(fd):
        return os.fstat(fd).st_blocks * 512 // MIB

    def shared():
        line = next(line for line in open("/proc/self/status") if line.startswith("RssShmem:"))
        return int(line.split()[1]) >> 10
"""

# Other mappings and descriptors show the state after munmap: while a deleted file is still mapped, its space stays
# allocated.
FILE_CASES = {
    "gone": "at = map_(fd := file()); before = shared(); unmap(at)\n"
            "print(mapped(), before - shared(), blocks(fd), right(os.pread(fd, SIZE, 0)))",
    "again and again": "for i in range(8):\n    at = map_(fd := file()); os.close(fd); unmap(at); print(mapped())",
    "twice": "at = map_(file()); unmap(at); unmap(at); print(mapped())",
    "a child's": ("at = map_(fd := file()); r, w = os.pipe()\n"
                  "if os.fork() == 0:\n"
                  "    os.read(r, 1); os._exit(7 if right(ctypes.string_at(at, SIZE)) else 8)\n"
                  "unmap(at); os.write(w, b'x'); print(os.wait()[1], mapped())"),
}


MONITORED = """
    at = map_(memfd())
    faults = libc.syscall(323, 0o2000000 | 0o4000)
    api = (c_uint64 * 3)(0xaa, 1 << 3, 0) # UFFD_FEATURE_EVENT_REMOVE
    ok(libc.ioctl(faults, ctypes.c_ulong(0xc018aa3f), api))
    ok(libc.ioctl(faults, ctypes.c_ulong(0xc020aa00), (c_uint64 * 4)(at, SIZE, 1, 0)))
    __import__("signal").alarm(30)
    unmap(at)
"""


def test_a_monitor_in_the_same_thread(unmapped):
    """The thread monitors its own memory by userfaultfd. If the library removed pages, it would wait until the thread
    reads the event, which happens only after munmap."""
    faults = ctypes.CDLL(None).syscall(323, 0o2000000)
    if platform.machine() != "x86_64" or faults < 0:
        pytest.skip("userfaultfd is refused here")
    os.close(faults)
    native, ours = unmapped(textwrap.dedent(MONITORED))
    assert native == ours == [32], (native, ours)


@pytest.mark.parametrize("case", FILE_CASES)
def test_nothing_is_left_when_munmap_returns(unmapped, case):
    native, ours = unmapped(textwrap.dedent(FILE) + FILE_CASES[case], GPUFEED_UNMAP="now")
    assert len(native) == len(ours) and native[0] == 32 and not any(ours), (native, ours)


# A mapping of 64 GiB, of which 64 MiB have pages, and the calls that remove pages.
SPARSE = """
    SPARSE = 64 << 30
    at = libc.mmap(None, SPARSE, 3, SHARED, {make}(SPARSE), 0)
    ctypes.memset(at + {first}, 1, 2 * SIZE)
    calls = c_int.in_dll(libc, "calls"); before = calls.value
    unmap(at, SPARSE)
    print(0 <= calls.value - before <= {most})
"""


@pytest.mark.parametrize("make, first, most, left", [
    ("memfd", 0, 0, 64), ("memory", 9 << 30, 0, 64)], ids=["a memfd", "a tensor"])
def test_a_sparse_mapping(unmapped, make, first, most, left):
    """One call that removes the pages of each 8 MiB would take 500 times as long as munmap."""
    native, ours = unmapped(textwrap.dedent(SPARSE).format(make=make, first=first, most=most))
    assert native == [64] and ours == [left]


def test_no_helper_is_woken_in_vain(unmapped):
    """A piece has 8 MiB. The caller takes one of the four, so at most three of the eleven helpers are woken."""
    unmapped("""
def switches():
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            text = open(f"/proc/self/task/{task}/status").read()
        except OSError:
            continue # the thread has ended
        if "gpufeed-copy" in text:
            found[task] = int(text.split("voluntary_ctxt_switches:")[1].split()[0])
    return found

woken = []
for i in range(5):
    at = map_(memory(32 * MIB), size=32 * MIB)
    time.sleep(0.2) # all helpers sleep
    before = switches()
    unmap(at, 32 * MIB)
    time.sleep(0.2)
    after = switches()
    woken.append(sum(after[task] != before[task] for task in after))
print(min(woken, default=0) <= 3)
""", threads=12, GPUFEED_UNMAP="now")


# With GPUFEED_UNMAP=later, the default. The first munmap only lets a helper read how much memory is left.
LATER = """
    import select

    def gone():
        end = time.monotonic() + 20
        while mapped() and time.monotonic() < end:
            time.sleep(0.01)
        return mapped()

    def settle():
        for i in range(2):
            at = map_(fd := file()); os.close(fd); libc.munmap(at, SIZE); gone(); time.sleep(0.2)
"""

LATER_CASES = {
    "all": "at = map_(fd := file()); unmap(at); print(right(os.pread(fd, SIZE, 0)), gone())",
    "nothing is there": ("at = map_(fd := file()); unmap(at)\n"
                         "libc.mincore.argtypes = [c_void_p, c_size_t, c_void_p]\n"
                         "print(libc.mincore(at, SIZE, ctypes.create_string_buffer(SIZE // 4096)), ctypes.get_errno())"),
    "mapped anew there": ("at = map_(fd := file()); unmap(at)\n"
                          "print(map_(fd, at=at, fixed=FIXED_NOREPLACE) == at, right(ctypes.string_at(at, SIZE)), mapped() > 0)"),
    "a child": ("at = map_(fd := file()); unmap(at)\n"
                "if os.fork() == 0:\n    print(mapped(), flush=True); os._exit(0)\n"
                "print(os.wait()[1], gone())"),
    "a child meanwhile": "libc.setenv(b'FORK', b'1', 1); at = map_(file()); unmap(at); print(gone())",
    "another process's": ("at = map_(fd := file()); r, w = os.pipe()\n"
                          "if os.fork() == 0:\n"
                          "    os.read(r, 1); os._exit(7 if right(ctypes.string_at(at, SIZE)) else 8)\n"
                          "unmap(at); os.write(w, b'x'); print(os.wait()[1], gone())"),
    "the file ends": ("fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600); os.ftruncate(fd, SIZE)\n"
                      "events = libc.inotify_init1(0); libc.inotify_add_watch(events, path.encode(), 0x400) # IN_DELETE_SELF\n"
                      "os.unlink(path); at = map_(fd); os.close(fd); unmap(at)\n"
                      "print(bool(select.select([events], [], [], 20)[0]), gone())"),
    "a refused call": ("at = map_(fd := file()); libc.setenv(b'FAIL', b'1', 1); unmap(at)\n"
                       "if os.fork() == 0:\n    os._exit(7 if right(ctypes.string_at(at, SIZE)) else 8)\n"
                       "print(os.wait()[1], right(ctypes.string_at(at, SIZE)))"),
    "a hole that is used again": ("at = map_(fd := file()); hole = libc.mmap(None, 2 * SIZE, 0, PRIVATE | ANONYMOUS, -1, 0)\n"
                                  "libc.munmap(hole, 2 * SIZE); unmap(at)\n"
                                  "assert libc.mmap(hole, 2 * SIZE, 3, PRIVATE | ANONYMOUS | FIXED, -1, 0) == hole\n"
                                  "os.close(fd); time.sleep(0.3); ctypes.memset(hole, 7, 2 * SIZE); print('right')"),
    "data of libraries": "at = map_(fd := file()); os.close(fd); unmap(at); print(libc.scan(), gone(), libc.scan())",
    "little address space": ("import resource\n"
                             "resource.setrlimit(resource.RLIMIT_AS, (1 << 46, resource.RLIM_INFINITY))\n"
                             "at = map_(fd := file()); unmap(at); print(right(os.pread(fd, SIZE, 0)), gone())"),
}

# Cases in which the process or other processes would notice that pages are not freed yet. So the library frees them
# inside the call.
NOW_CASES = {
    "a file with a name": ("fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)\n"
                           "os.ftruncate(fd, SIZE); at = map_(fd)\n"
                           "try:\n    unmap(at); print(mapped())\nfinally:\n    os.unlink(path)"),
}


def has_plenty():
    free = os.statvfs("/dev/shm")
    available = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemAvailable"))
    return free.f_bavail * free.f_frsize >= 40 * 32 << 20 and available >= 4 << 20


plenty = pytest.mark.skipif(not has_plenty(), reason="less than 1.25 GiB in /dev/shm, or less than 4 GiB of memory")


@plenty
@pytest.mark.parametrize("case", LATER_CASES)
def test_a_helper_frees_the_file(unmapped, case):
    native, ours = unmapped(textwrap.dedent(FILE + LATER) + "settle()\n" + LATER_CASES[case], kept=1)
    assert native == [32] and ours == [0], (native, ours)


@pytest.mark.parametrize("case", NOW_CASES)
def test_later_frees_now_what_would_be_noticed(unmapped, case):
    native, ours = unmapped(textwrap.dedent(FILE + LATER) + "settle()\n" + NOW_CASES[case])
    assert native == [32] and ours == [0], (native, ours)


def test_later_needs_32_times_the_size(unmapped):
    free = os.statvfs("/dev/shm")
    size = free.f_bavail * free.f_frsize // 24 >> 21 << 21
    if not 32 << 20 <= size <= 2 << 30:
        pytest.skip("/dev/shm is too small or too large for it")
    native, ours = unmapped(textwrap.dedent(FILE + LATER) + f"settle()\nat = map_(file({size}), size={size})\n"
                            f"unmap(at, {size}); print(mapped())")
    assert native == [size >> 20] and ours == [0]
