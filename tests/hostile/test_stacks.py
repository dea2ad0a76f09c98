# SPDX-License-Identifier: Apache-2.0
"""`gpufeed stacks` stops the threads of a process. Nothing may leave them stopped: a thread that does not stop, a full
pipe, a signal, or a file that cannot be read."""

import functools
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

from conftest import BUILD, COMMAND, SYSCALL_KIT, needs_root

STACKS = BUILD / "src" / "tools" / "gpufeed-stacks"
pytestmark = pytest.mark.skipif(not STACKS.exists(), reason="gpufeed-stacks was not built: no static libunwind")
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffd]")
FREEZE_S = 5  # far above the time for which the threads may be stopped

VFORK_ALONE = r"""
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); if (vfork() == 0) for (;;) pause(); }
"""
# A thread waits for the child of its vfork, other threads wait, and the main thread prints the time.
COUNTS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void *waits_for_child(void *x) { if (vfork() == 0) for (;;) pause(); return x; }
static void *waits(void *x) { pause(); return x; }
int main(int argc, char **argv) {
    pthread_t thread;
    if (atoi(argv[1])) pthread_create(&thread, 0, waits_for_child, 0);
    for (int i = 0; i < atoi(argv[2]); i++) pthread_create(&thread, 0, waits, 0);
    usleep(100000);
    puts("ready");
    for (;;) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        printf("%.3f\n", now.tv_sec + now.tv_nsec / 1e9);
        fflush(stdout);
        usleep(10000);
    }
}
"""


@pytest.fixture
def started():
    made = []

    def go(*command):
        one = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, start_new_session=True)
        made.append(one)
        assert one.stdout.readline() == "ready\n"
        return one
    yield go
    for one in made:
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def stacks(pid, command=(COMMAND, "stacks")):
    return subprocess.run([*command, str(pid)], capture_output=True, timeout=60, check=False)


def ticks(one):
    """Reads the times that the program prints, until a time after now. A frozen program ends the test."""
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    times = []
    os.set_blocking(one.stdout.fileno(), False)
    while not times or times[-1] < now:
        times += [float(line) for line in one.stdout.readlines()]
        assert time.clock_gettime(time.CLOCK_MONOTONIC) < now + 10, "frozen"
        time.sleep(0.01)
    return times


def assert_runs_free(one):
    times = ticks(one)
    assert max(b - a for a, b in zip(times, times[1:])) < FREEZE_S
    for task in pathlib.Path(f"/proc/{one.pid}/task").iterdir():
        assert "TracerPid:\t0\n" in (task / "status").read_text()


def test_a_process_that_does_not_stop(started, compile_c):
    one = started(compile_c(VFORK_ALONE))
    done = stacks(one.pid)
    assert done.returncode == 0 and b"the thread does not stop" in done.stdout, done
    assert "TracerPid:\t0\n" in pathlib.Path(f"/proc/{one.pid}/status").read_text()


def test_a_thread_that_does_not_stop(started, compile_c):
    one = started(compile_c(COUNTS, "-pthread"), 1, 3)
    done = stacks(one.pid)
    text = done.stdout.decode()
    assert done.returncode == 0 and text.count("the thread does not stop") == 1, text
    assert text.count("pause") >= 3 and "main+" in text, text
    assert_runs_free(one)


def test_a_reader_that_does_not_read(started, compile_c):
    """The output is larger than the pipe to a pager that waits for a key."""
    one = started(compile_c(COUNTS, "-pthread"), 0, 600)
    with subprocess.Popen([COMMAND, "stacks", str(one.pid)], stdout=subprocess.PIPE) as command:
        time.sleep(FREEZE_S + 1)
        assert command.poll() is None, "the output fits into the pipe"
        assert_runs_free(one)
        command.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGPIPE])
@pytest.mark.parametrize("after", [0.01, 0.05, 0.2])
def test_a_signal_to_the_command(started, compile_c, number, after):
    one = started(compile_c(COUNTS, "-pthread"), 1, 100)
    with subprocess.Popen([COMMAND, "stacks", str(one.pid)], stdout=subprocess.PIPE, start_new_session=True) as command:
        time.sleep(after)
        os.killpg(command.pid, number)
        time.sleep(FREEZE_S if number in (signal.SIGSTOP, signal.SIGTSTP) else 0.5)
        assert_runs_free(one)
        command.kill()


SIGNALS = r"""
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int got;
static void count(int number) { got++; }
int main(void) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN, &action, 0);
    puts("ready"); fflush(stdout);
    char byte;
    read(0, &byte, 1);
    printf("%d\n", got);
}
"""


def test_signals_to_the_process(compile_c):
    """A signal that arrives while the threads stop must not be lost."""
    sent, libc_rtmin = 0, signal.SIGRTMIN
    with subprocess.Popen([compile_c(SIGNALS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout.readline() == "ready\n"
        for _ in range(10):
            with subprocess.Popen([COMMAND, "stacks", str(one.pid)], stdout=subprocess.DEVNULL) as command:
                while command.poll() is None:
                    for _ in range(20):
                        os.kill(one.pid, libc_rtmin)
                        sent += 1
                    time.sleep(0.0005)
        time.sleep(0.2)
        out, _ = one.communicate("x", timeout=30)
        assert int(out) == sent


LIBRARY = "#include <unistd.h>\nvoid waits(void (*ready)(void)) { ready(); for (;;) pause(); }"
CALLS = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
static const char *path;
static void replace(void) { unlink(path); mkfifo(path, 0777); puts("ready"); fflush(stdout); }
int main(int argc, char **argv) {
    path = argv[1];
    void (*waits)(void (*)(void)) = dlsym(dlopen(path, RTLD_NOW), "waits");
    waits(replace);
}
"""


def test_a_library_that_became_a_pipe(started, compile_c, tmp_path):
    """libunwind opens the files of the process by their paths, and would wait for a writer."""
    library = tmp_path / "libwaits.so"
    compile_c(LIBRARY, "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", name="libwaits.so").rename(library)
    one = started(compile_c(CALLS, "-ldl", name="calls"), library)
    done = stacks(one.pid)
    assert done.returncode == 0 and b'thread ' in done.stdout, done
    assert "TracerPid:\t0\n" in pathlib.Path(f"/proc/{one.pid}/status").read_text()


def test_a_pipe_beside_a_deleted_library(started, compile_c, tmp_path):
    """The kernel appends " (deleted)" to the path of a deleted file. libunwind would open a pipe or a device of that name."""
    library = tmp_path / "libwaits.so"
    compile_c(LIBRARY, "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", name="libwaits.so").rename(library)
    os.mkfifo(f"{library} (deleted)")
    one = started(compile_c(CALLS, "-ldl", name="calls"), library)
    done = stacks(one.pid)
    assert done.returncode == 0 and b"was not read" not in done.stdout and b"pause" in done.stdout, done


def test_a_file_of_the_kernel_beside_a_deleted_library(started, compile_c, tmp_path):
    """To open and close a file of tracefs may discard the trace."""
    library, name = tmp_path / "libwaits.so", "/sys/kernel/uevent_seqnum"
    compile_c(LIBRARY, "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", name="libwaits.so").rename(library)
    os.symlink(name, f"{library} (deleted)")
    one = started(compile_c(CALLS, "-ldl", name="calls"), library)
    done = stacks(one.pid, ("/usr/bin/strace", "-fye", "openat", "-o", tmp_path / "trace", COMMAND, "stacks"))
    opens = [line for line in (tmp_path / "trace").read_text().splitlines() if line.endswith(f"<{name}>")]
    assert done.returncode == 0 and opens and all("O_PATH" in line for line in opens), (done, opens)


# Waits in code of its first argument, at offset 4096 of the file.
RUNS_FILE = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static void *run(void *code) { ((void (*)(void))code)(); return code; }
int main(int argc, char **argv) {
    pthread_t thread;
    void *code = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), 4096);
    clockid_t clock;
    struct timespec used = {0};
    if (code == MAP_FAILED || nice(19) < 0 || pthread_create(&thread, 0, run, code)) return 1;
    /* To start takes less CPU time than this: the thread is in the code. */
    for (pthread_getcpuclockid(thread, &clock); used.tv_nsec < 10000000; usleep(1000)) clock_gettime(clock, &used);
    puts("ready"); fflush(stdout);
    for (;;) pause();
}
"""


def test_a_library_with_a_sparse_table(started, compile_c, tmp_path):
    """A search in a table of terabytes would take hours, and fill the page cache."""
    size = 4 << 40
    sections = [(0, 0, 0, 0), (2, 0x10000, size, 2), (3, 0x900, 8, 0)]
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0x800, 0, 64, 56, 1, 64, len(sections), 0)
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0x3000, 0x3000, 0x1000)
    with open(tmp_path / "lib.so", "wb") as file:
        file.write(head.ljust(0x800, b"\0"))
        for kind, at, length, link in sections:
            file.write(struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, length, link, 0, 8, 24))
        file.seek(0x1000)
        # Push a return address that is no code, and a frame pointer of 0; point to them; pause; jump to the pause.
        file.write(b"\x68\x55\x55\x05\x00\x6a\x00\x48\x89\xe5\xf3\x90\xeb\xfc")
        file.truncate(0x10000 + size)
    one = started(compile_c(RUNS_FILE, "-pthread"), tmp_path / "lib.so")
    done = subprocess.run(["/bin/sh", "-c", f"ulimit -t 8; exec {COMMAND} stacks {one.pid}"], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and b"lib.so+0x10" in done.stdout, done.stdout.decode()
    assert b"0x55554" not in done.stdout, done.stdout.decode()


# A reader to which the kernel answers slowly, or whose files are truncated once they are mapped.
SLOW = SYSCALL_KIT + r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
long syscall(long number, ...) {
    READ_ARGUMENTS(number, at)
    if (number == SYS_openat && getenv("SLOW") && strstr((const char *)at[1], "/status")) usleep(atoi(getenv("SLOW")));
    return PASS_ON(number, at);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    void *const ret = next(at, size, protection, flags, fd, offset);
    const char *name = fd >= 0 ? getenv("TRUNCATES") : NULL;
    char link[64], path[4096] = "";
    if (!name) return ret;
    strcpy(link, "/proc/self/fd/");
    for (int digit = 1000, n = 14; digit; digit /= 10) link[n++] = '0' + fd / digit % 10, link[n] = 0;
    memmove(link + 14, link + 14 + strspn(link + 14, "0"), 8);
    if (readlink(link, path, sizeof(path) - 1) > 0 && !strcmp(path, name)) truncate(name, 0);
    return ret;
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) { return mmap(at, size, protection, flags, fd, offset); }
"""


def test_threads_that_take_long_to_describe(started, compile_c):
    """As with tens of thousands of threads: to describe all of them takes more than the time for which they may be stopped."""
    one = started(compile_c(COUNTS, "-pthread"), 0, 600)
    preload = compile_c(SLOW, "-shared", "-fPIC", "-ldl", name="slow.so")
    done = stacks(one.pid, ("/usr/bin/env", f"LD_PRELOAD={preload}", "SLOW=6000", COMMAND, "stacks"))
    text = done.stdout.decode()
    assert done.returncode == 0 and "601 threads" in text and "in an unknown state" in text, done
    assert text.count("pause") + text.count("took too long") >= 600 and "pause" in text, text
    assert_runs_free(one)


def test_a_library_that_is_truncated(started, compile_c, tmp_path):
    """Another process truncates the library once the reader has mapped it."""
    library = tmp_path / "libwaits.so"
    compile_c(LIBRARY, "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", name="libwaits.so").rename(library)
    calls = CALLS.replace("unlink(path); mkfifo(path, 0777);", "")
    one = started(compile_c(calls, "-ldl", name="calls"), library)
    preload = compile_c(SLOW, "-shared", "-fPIC", "-ldl", name="slow.so")
    done = stacks(one.pid, ("/usr/bin/env", f"LD_PRELOAD={preload}", f"TRUNCATES={library}", COMMAND, "stacks"))
    assert done.returncode == 0 and library.stat().st_size == 0, done
    assert b"pause" in done.stdout and b"libwaits.so+" in done.stdout and b"not read" not in done.stdout, done


# A FUSE file system with one file of all names, the text of its second argument. It answers reads until a file of its third
# argument exists. An open of the name "report" is not answered.
FUSE = r"""
import ctypes, os, struct, sys
folder, file, silent = sys.argv[1:]
text = open(file, "rb").read()
fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40000,user_id=65534,group_id=0,allow_other".encode()
if ctypes.CDLL(None).mount(b"hostile", folder.encode(), b"fuse", 0, options):
    sys.exit("no mount")
print("ready", flush=True)
def attributes(node):
    return struct.pack("<6Q10I", node, len(text), 0, 0, 0, 0, 0, 0, 0, 0o40755 if node == 1 else 0o100755, 1, 0, 0, 0, 4096, 0)
while True:
    _, call, number, node = struct.unpack_from("<IIQQ", request := os.read(fuse, 1 << 20))
    out, error = b"", 0
    if call == 26: out = struct.pack("<4I2H2I2HI28x", 7, 31, 0, 0, 1, 1, 1 << 16, 1, 16, 0, 0)[:64].ljust(64, b"\0")
    elif call == 1:
        node = 3 if request[40:].startswith(b"report") else 2
        out = struct.pack("<5QII", node, 0, 100, 100, 0, 0, 0)[:40] + attributes(node)
    elif call == 3: out = struct.pack("<QII", 100, 0, 0) + attributes(node)
    elif call == 14 and node == 3: continue
    elif call == 14: out = struct.pack("<QII", 1, 0, 0)
    elif call == 15:
        if os.path.exists(silent): continue
        at, size = struct.unpack_from("<8xQI", request, 40)
        out = text[at:at + size]
    elif call in (2, 36, 42): continue
    elif call not in (18, 25): error = -38
    os.write(fuse, struct.pack("<IiQ", 16 + len(out), error, number) + out)
"""


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="only root can mount a FUSE file system")
def test_a_library_on_a_mount_that_does_not_answer(started, compile_c, tmp_path):
    """SIGKILL does not end a process that waits for FUSE. The threads must continue, and the output must end."""
    folder, silent = tmp_path / "mount", tmp_path / "silent"
    folder.mkdir()
    library = compile_c(LIBRARY + "\nchar far[4 << 20] = {1};", "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", name="libwaits.so")
    with subprocess.Popen([sys.executable, "-c", FUSE, folder, library, silent], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            one = started(compile_c(CALLS.replace("unlink(path); mkfifo(path, 0777);", ""), "-ldl", name="calls"), folder / "lib.so")
            silent.touch()
            done = subprocess.run(["/bin/sh", "-c", f"{COMMAND} stacks {one.pid} | cat"], capture_output=True, timeout=60, check=False)
            assert b"was not read" in done.stdout, done
            assert "TracerPid:\t0\n" in pathlib.Path(f"/proc/{one.pid}/status").read_text()
        finally:
            server.kill()
            subprocess.run(["umount", "-l", folder], check=False)


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="only root can mount a FUSE file system")
def test_a_report_on_a_mount_that_does_not_answer(started, compile_c, tmp_path):
    """The command prints the process's figures before the stacks, and reads them from its report. `top` shows the other processes."""
    folder = tmp_path / "mount"
    folder.mkdir()
    library = compile_c(LIBRARY, "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", name="libwaits.so")
    with subprocess.Popen([sys.executable, "-c", FUSE, folder, library, tmp_path / "silent"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            calls = compile_c(CALLS.replace("unlink(path); mkfifo(path, 0777);", ""), "-ldl", name="calls")
            one = started("/usr/bin/env", f"GPUFEED_REPORT={folder}/report", calls, folder / "libgpufeed-engine.so")
            done = subprocess.run(["/bin/sh", "-c", f"{COMMAND} stacks {one.pid} | cat"], capture_output=True, timeout=60, check=False)
            assert b"cannot be read in time" in done.stderr and b"main+" in done.stdout, done
            environment = started("/usr/bin/env", "SLURM_JOB_ID=9999999", calls, folder / "libgpufeed-engine.so")
            for words in f"top -n2 {one.pid}", "top --json", "top -n1 9999999":
                done = subprocess.run(["/bin/sh", "-c", f"{COMMAND} {words} | cat"], capture_output=True, timeout=60, check=False)
                assert str((environment if "999" in words else one).pid).encode() in done.stdout, done
        finally:
            server.kill()
            subprocess.run(["umount", "-l", folder], check=False)


# The second open has FOPEN_DIRECT_IO, and the mmap of such a file waits until nobody reads its pages. Reads are not answered.
CHANGES_MAPPINGS = FUSE.replace("""print("ready", flush=True)\n""", "").replace("1, 0, 0)\n", "1, len(opens), 0); opens.append(1)\n") \
    .replace("silent): continue", 'silent): print("ready", flush=True); continue').replace("while True", """
opens = []
if os.fork():
    os.close(fuse)
    import threading, time
    first, second = (os.open(folder + "/file", os.O_RDONLY) for _ in range(2))
    threading.Thread(target=os.read, args=(first, 1)).start()
    time.sleep(0.2)
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap(libc.mmap(None, 4096, 3, 0x22, -1, 0), 4096, 1, 0x12, second, 0)
while True""")


@needs_root
@pytest.mark.parametrize("user", ["other", "own"])
def test_mappings_that_cannot_be_read(other, user):
    """While a call changes mappings, /proc/PID/maps cannot be read. `top`, and `stacks JOB`, read that of each process, and name it."""
    (other.folder / "mount").mkdir()
    (other.folder / "mount").chmod(0o777)
    words = ["unshare", "-Urm", sys.executable, "-c", CHANGES_MAPPINGS, "mount", "/etc/passwd", "/etc/passwd"]
    start = other.start if user == "other" else functools.partial(subprocess.Popen, cwd=other.folder)
    with start(words, stdout=subprocess.PIPE, start_new_session=True) as one:
        try:
            if one.stdout.readline() != b"ready\n":
                pytest.skip("a user cannot mount a FUSE file system here")
            time.sleep(0.4)
            for words in ["top", "-n1"], ["top", "--json"], ["top", "no-job"], ["top", "-n1", one.pid], ["stacks", "no-job"]:
                done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, timeout=20, check=False)
                assert b"timed out" not in done.stderr and str(one.pid).encode() in done.stdout + done.stderr, done
        finally:
            os.killpg(one.pid, signal.SIGKILL)


# Threads that wait in code of different files of a folder.
IN_FILES = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *waits(void *code) { ((void (*)(void))code)(); return 0; }
int main(int argc, char **argv) {
    static const unsigned char pauses[] = {0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7}; /* again: pause(); goto again; */
    for (int i = 0; i < 6; i++) {
        char path[4096];
        pthread_t thread;
        snprintf(path, sizeof(path), "%s/%d", argv[1], i);
        char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, open(path, O_RDONLY), 0);
        memcpy(code, pauses, sizeof(pauses));
        pthread_create(&thread, 0, waits, code);
    }
    puts("ready"); fflush(stdout);
    for (;;) pause();
}
"""


@pytest.mark.parametrize("kind", [None, 0x6474e550, 2], ids=["headers", "eh_frame", "dynamic"])
def test_a_library_whose_tables_are_elsewhere(started, compile_c, tmp_path, kind):
    """libunwind follows the offsets of a file without a check, and so the child that reads the stacks would crash."""
    library = bytearray(compile_c(LIBRARY, "-shared", "-fPIC", name="libwaits.so").read_bytes())
    segments = range(64, 64 + 56 * library[56], 56)
    for at in [32] if kind is None else [at + 8 for at in segments if struct.unpack_from("<I", library, at)[0] == kind]:
        library[at:at + 8] = struct.pack("<Q", 1 << 40)
    for i in range(6):
        (tmp_path / f"{i}").write_bytes(library)
    done = stacks(started(compile_c(IN_FILES, "-pthread"), tmp_path).pid)
    assert done.returncode == 0 and b"was not read" not in done.stdout and done.stdout.count(b"thread ") >= 7, done


@pytest.mark.parametrize("encodings", ["ffff", "0350", "9b3b"], ids=["no table", "other table", "indirect"])
def test_a_library_with_another_table_of_unwind_data(started, compile_c, tmp_path, encodings):
    """libunwind ends the child that reads the stacks if the table has another form, also the form of a linker without a table."""
    library = bytearray(compile_c(LIBRARY, "-shared", "-fPIC", name="libwaits.so").read_bytes())
    header = next(at for at in range(64, 64 + 56 * library[56], 56) if struct.unpack_from("<I", library, at)[0] == 0x6474e550)
    table = struct.unpack_from("<Q", library, header + 8)[0]
    assert library[table:table + 4] == b"\x01\x1b\x03\x3b"
    library[table + 1 if encodings == "9b3b" else table + 2], library[table + 3] = bytes.fromhex(encodings)
    if encodings == "9b3b":
        library[table + 4:table + 8] = struct.pack("<i", 1 << 30)
    for i in range(6):
        (tmp_path / f"{i}").write_bytes(library)
    done = stacks(started(compile_c(IN_FILES, "-pthread"), tmp_path).pid)
    assert done.returncode == 0 and b"was not read" not in done.stdout and done.stdout.count(b"thread ") >= 7, done


# An open takes 2 s, except those of the process itself and those during which it is traced.
OPENS_SLOWLY = FUSE.replace("import ctypes", "import ctypes, re, time").replace("while True", """
pids, slow = [], 0
def wait(request):
    global slow
    pids.append(struct.unpack_from("<I", request, 32)[0])
    if pids[-1] != pids[0] and "TracerPid:\\t0" in open(f"/proc/{pids[0]}/status").read():
        slow += 1
        print(slow, flush=True)
        time.sleep(2)
while True""").replace("elif call == 14: out", "elif call == 14: wait(request); out")


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="only root can mount a FUSE file system")
def test_files_that_are_opened_slowly(started, compile_c, tmp_path):
    """The names of functions may take 5 s in all, however many files there are."""
    folder = tmp_path / "mount"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", OPENS_SLOWLY, folder, "/bin/true", tmp_path / "silent"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            one = started(compile_c(IN_FILES, "-pthread"), folder)
            done = stacks(one.pid)
        finally:
            server.kill()
            opened = server.stdout.read().split()
            subprocess.run(["umount", "-l", folder], check=False)
    assert done.stdout.count(b"\n      5+0x") == 1 and 1 <= len(opened) <= 4, (opened, done)


# Nothing that is awaited comes in time, and the time of the wait passes at once; with LATE, what is awaited comes, 5 s later.
NOTHING_COMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
static long late_ms;
int poll(struct pollfd *list, nfds_t count, int wait_ms) {
    const int file = open(getenv("WAITS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    late_ms += getenv("LATE") ? 5000 : wait_ms;
    if (write(file, "x", 1) != 1 || close(file)) abort();
    return getenv("LATE") ? ((int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll"))(list, count, wait_ms) : 0;
}
int clock_gettime(clockid_t clock, struct timespec *ret) {
    const int result = ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(clock, ret);
    ret->tv_sec += late_ms / 1000;
    return result;
}
"""


def wait_in_vain(compile_c, folder, *pids):
    """Returns how often the command waited, and for how many processes it did not wait."""
    preload = compile_c(NOTHING_COMES, "-shared", "-fPIC", "-ldl", name="nothing.so")
    done = subprocess.run(["/usr/bin/env", f"LD_PRELOAD={preload}", f"WAITS={folder}/waits", STACKS, *map(str, pids)],
                          capture_output=True, text=True, timeout=60, check=False)
    for pid in set(pids):
        assert done.stderr.count(f"process {pid} cannot be read in time") + done.stdout.count(f"rest of process {pid}") == pids.count(pid), done
    waits = (folder / "waits").stat().st_size
    (folder / "waits").unlink()
    return waits


def test_a_job_that_cannot_be_read(started, compile_c, tmp_path):
    """Each process may keep the command waiting for 18 s. One limit holds for all, and each process is named."""
    one = started(compile_c(COUNTS, "-pthread"), 0, 0)
    assert 1 < wait_in_vain(compile_c, tmp_path, *40 * [one.pid]) <= 20
    assert_runs_free(one)


@needs_root
def test_a_process_that_claims_to_be_of_the_job(other, started, compile_c, tmp_path):
    """Another user's processes cannot use up the time for those of this user."""
    one = started(compile_c(COUNTS, "-pthread"), 0, 0)
    with other.start(["/bin/sleep", "100"]) as claims:
        alone = wait_in_vain(compile_c, tmp_path, *40 * [claims.pid])
        both = wait_in_vain(compile_c, tmp_path, *40 * [claims.pid], *40 * [one.pid])
        claims.kill()
    assert alone <= 20 and both >= alone + 2, (alone, both)


OF_MANY_USERS = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
    int ends[2];
    if (pipe(ends)) return 1;
    for (int i = 0; i < 280; i++) {
        const pid_t pid = fork();
        if (!pid) {
            if (setuid(70000 + i) || prctl(PR_SET_PDEATHSIG, SIGKILL) || write(ends[1], "x", 1) != 1) return 1;
            for (;;) pause();
        }
        if (read(ends[0], &(char){0}, 1) != 1) return 1;
        printf("%d ", pid);
    }
    puts(""); fflush(stdout);
    pause();
}
"""


@needs_root
def test_processes_of_many_users(compile_c, tmp_path):
    """A user may have many ids. One limit holds for all other users, and does not count for this one. Two leave time for a third."""
    with subprocess.Popen([compile_c(OF_MANY_USERS)], stdout=subprocess.PIPE) as one:
        pids = one.stdout.readline().split()
        others, both = (wait_in_vain(compile_c, tmp_path, *map(int, pids), *own) for own in ([], 15 * [one.pid]))
        two, three = (wait_in_vain(compile_c, tmp_path, *20 * [int(pids[0])], *20 * [int(pids[1])], *third) for third in ([], [int(pids[2])]))
        one.kill()
    assert others <= 40 and both >= others + 5 and three > two, (others, both, two, three)


@needs_root
@pytest.mark.parametrize("user", ["other", "other's setuid program", "own"])
def test_answers_that_come_late(other, compile_c, tmp_path, user):
    """Each comes before the time for one process is over. Those of this user are shown nevertheless."""
    program = shutil.copy("/bin/sleep", other.folder)
    os.chmod(program, 0o4755 if "setuid" in user else 0o755)
    preload = compile_c(NOTHING_COMES, "-shared", "-fPIC", "-ldl", name="late.so")
    words = ["/usr/bin/env", f"LD_PRELOAD={preload}", f"WAITS={tmp_path}/waits", "LATE=1", STACKS, "--python"]
    with (subprocess.Popen if user == "own" else other.start)([program, "100"]) as one:
        done = subprocess.run(words + 60 * [str(one.pid)], capture_output=True, text=True, timeout=100, check=False)
        one.kill()
    unread = done.stderr.count("cannot be read in time")
    assert done.stdout.count("(not shown: 1 thread without") == 60 - unread and (unread > 20) == (user != "own"), done


NAMED = r"""
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv) { prctl(PR_SET_NAME, argv[1]); puts("ready"); fflush(stdout); for (;;) pause(); }
"""


@pytest.mark.parametrize("command", [(COMMAND, "stacks"), (STACKS,)], ids=["command", "helper"])
@pytest.mark.parametrize("name", [b"a\xe2\x80\xaeb", b"a\x9b31mb", b"a\xc2\x9b31mb", b"a\xffb", b"a\x1b[31mb"], ids=ascii)
def test_names_that_a_terminal_obeys(started, compile_c, tmp_path, command, name):
    """The name of a thread, of the program's file, and of its folder."""
    program = os.fsencode(tmp_path) + b"/" + name
    os.mkdir(program)
    program += b"/" + name
    os.rename(compile_c(NAMED), program)
    with subprocess.Popen([program, name], stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout.readline() == b"ready\n"
            text = stacks(one.pid, command).stdout.decode(errors="surrogateescape")
        finally:
            one.kill()
    assert text.count("main+") + text.count("?") >= 2 and "b" in text and not RAW.search(text), text
