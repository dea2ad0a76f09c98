# SPDX-License-Identifier: Apache-2.0
"""Running processes of others, made so that `gpufeed top` takes long, opens what it must not, or shows what they want."""

import json
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import COMMAND, needs_root
from test_input import ONE_PROCESS, RAW, bounded, elf, stall
from test_stacks import FUSE

HOSTILE = """
import ctypes, mmap, os, resource, sys, time
folder, descriptors, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
path = folder + "/libgpufeed-engine.so"
open(path, "wb").write(bytes(4096))
engine = mmap.mmap(os.open(path, os.O_RDONLY), 4096, prot=mmap.PROT_READ)
ctypes.CDLL(None).prctl(15, b"gpufeed-x", 0, 0, 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
if descriptors:
    file = os.memfd_create("gpufeed-live")
    os.write(file, eval(text))
    for _ in range(descriptors):
        os.dup(file)
print("ready", flush=True)
time.sleep(100)
"""


@pytest.fixture
def hostile(tmp_path):
    made = []

    def start(descriptors, text="b'x' * 4096", report=None, name=sys.executable):
        env = {"PATH": os.environ["PATH"], **({"GPUFEED_REPORT": str(report)} if report else {})}
        one = subprocess.Popen([name, "-c", HOSTILE, tmp_path, str(descriptors), text], executable=sys.executable, env=env,
                               stdout=subprocess.PIPE)
        made.append(one)
        assert one.stdout.readline() == b"ready\n"
        return one
    yield start
    for one in made:
        one.kill()
        one.wait()


LIVE = """
import itertools, struct
file = os.memfd_create("gpufeed-live")
for k in itertools.count():
    states = ",".join('"s%d":{"s":%d}' % (i, k + 1) for i in range(9999))
    devices = ",".join(['{"states":{%s}}' % states] + ['{"device":%d}' % (k % 7)] * 20000)
    text = ('{"schema":2,"ran_s":%d,"gpus":[%s],"gpu_time":{"devices":[%s]}}' % (k, devices, devices)).encode()
    os.pwrite(file, text, 48 + k % 2 * (1 << 20))
    os.pwrite(file, struct.pack("=8sIiQQQQ", b"gpufeed\\n", 1, os.getpid(), 2 * k, 48 + k % 2 * (1 << 20), len(text), 0), 0)
    if k == 1:
        print("ready", flush=True)
    time.sleep(0.2)
"""


def test_the_devices_of_a_live_file(tmp_path):
    """`stacks` looks each of them up in an earlier report. Its child would use up the limit of CPU time."""
    script = HOSTILE.replace('print("ready", flush=True)\ntime.sleep(100)\n', LIVE)
    with subprocess.Popen([sys.executable, "-c", script, tmp_path, "0", ""], stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout.readline() == b"ready\n"
            done = bounded("stacks", one.pid, cpu_s=4)
        finally:
            one.kill()
    assert b"hooked calls: none" in done.stdout and done.stdout.count(b"GPU ") <= 70 and len(done.stdout) < 10000, done


def opened(pid, *words):
    """Runs a command under strace. Returns it, and its open and sleep calls."""
    trace = pathlib.Path(f"/tmp/gpufeed-trace-{os.getpid()}")
    done = subprocess.run(["/usr/bin/strace", "-f", "-e", "trace=openat,clock_nanosleep", "-o", trace, COMMAND, *words, str(pid)],
                          capture_output=True, timeout=100, check=False)
    text = trace.read_text()
    trace.unlink()
    return done, text


def test_many_live_files(hostile):
    """Each descriptor is a file that is never valid. One budget holds for all of them."""
    one = hostile(300)
    done, calls = opened(one.pid, "top", "-n1")
    assert done.returncode == 0 and calls.count("clock_nanosleep") <= 120, calls.count("clock_nanosleep")


# Maps its second argument, an engine, in a number of processes that look like ones with the library. With a third argument, the
# first process has no engine, but so many threads.
ENGINES = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *run(void *unused) { for (;;) pause(); }
int main(int argc, char **argv) {
    void *engine = mmap(0, 1, PROT_READ, MAP_PRIVATE, open(argv[2], O_RDONLY), 0);
    pthread_attr_t attributes;
    pthread_t thread;
    const int parent = getpid();
    if (engine == MAP_FAILED) return 1;
    prctl(PR_SET_NAME, argc > 3 ? "other" : "gpufeed");
    for (int i = 1; i < atoi(argv[1]); i++) if (!fork()) { prctl(PR_SET_PDEATHSIG, 9); if (getppid() != parent) return 0; run(0); }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 32768);
    if (argc > 3) munmap(engine, 1);
    for (int i = 0; argc > 3 && i < atoi(argv[3]); i++) pthread_create(&thread, &attributes, run, 0);
    puts("ready"); fflush(stdout);
    run(0);
}
"""


@needs_root
def test_a_list_that_another_user_fills(other, shared, compile_c):
    """300 processes of another user come before those of this user and of a third one in the list of processes."""
    program = shutil.copy(compile_c(ENGINES, "-pthread"), shared)
    engine = shutil.copy(program, shared / "libgpufeed-engine.so")
    with other.start([program, "300", engine], stdout=subprocess.PIPE) as many:
        with subprocess.Popen([program, "2", engine], stdout=subprocess.PIPE) as own, \
             subprocess.Popen([program, "2", engine], stdout=subprocess.PIPE, user="daemon") as third:
            try:
                assert [one.stdout.readline() for one in (many, own, third)] == 3 * [b"ready\n"]
                text = bounded("top", "-n1").stdout.decode()
                row = json.loads(bounded("top", "--json").stdout)
            finally:
                for one in (many, own, third):
                    one.kill()
    shown = [process["pid"] for process in row["processes"]]
    # A process of another test may end before its row is made.
    assert 240 <= len(shown) <= 256 and row["not_shown"] >= 48 and shown == sorted(shown), row
    assert {own.pid, third.pid} <= set(shown) and re.search(f"^ *{own.pid}  ", text, re.M)
    # Processes of other tests began or ended between the two calls.
    assert int(re.search(r"(\d+) more processes are not shown", text)[1]) >= 48, text


# Each reading of the time is 45 ms later than it is. Counts the lists of mappings that are opened.
LATER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *ret) {
    static int calls;
    const int result = ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(clock, ret);
    const long later = ret->tv_nsec + 45000000L * calls++;
    ret->tv_sec += later / 1000000000;
    ret->tv_nsec = later % 1000000000;
    return result;
}
long syscall(long number, long a, long b, long c, long d, long e, long f) {
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    FILE *opened = number == SYS_openat && strstr((const char *)b, "/maps") ? fopen(getenv("OPENED"), "a") : NULL;
    if (opened) fprintf(opened, "%s\n", (const char *)b), fclose(opened);
    return next(number, a, b, c, d, e, f);
}
"""


@needs_root
def test_many_processes_that_answer(other, shared, compile_c):
    """Each is answered soon, and so thousands of processes, which may share one long list of mappings, would take minutes."""
    program = shutil.copy(compile_c(ENGINES, "-pthread"), shared)
    later = compile_c(LATER, "-shared", "-fPIC", "-ldl", name="later.so")
    with other.start([program, "600", program], stdout=subprocess.PIPE) as many:
        assert many.stdout.readline() == b"ready\n"
        others = {str(one) for one in pathlib.Path("/proc").glob("[0-9]*/maps") if os.stat(one.parent).st_uid}
        subprocess.run(["/usr/bin/env", f"LD_PRELOAD={later}", f"OPENED={shared}/opened", COMMAND, "top", "-n1"], timeout=100, check=True)
        many.kill()
    opened = others & set((shared / "opened").read_text().split())
    assert len(others) >= 600 and 50 < len(opened) < 300, (len(others), len(opened))


def test_children_of_a_process_with_many_threads(tmp_path, compile_c):
    """The threads' names are read to decide whether the process is shown in place of its children, once for each child."""
    program = compile_c(ENGINES, "-pthread")
    engine = shutil.copy(program, tmp_path / "libgpufeed-engine.so")
    with subprocess.Popen([program, "250", engine, "2500"], stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout.readline() == b"ready\n"
            shown = {row["pid"] for row in json.loads(bounded("top", "--json", cpu_s=2).stdout)["processes"]}
        finally:
            one.kill()
    assert len(shown) > 200 and one.pid not in shown


SPENT = """
#include <time.h>
clock_t clock(void) { static clock_t now; return now += CLOCKS_PER_SEC; }
"""


def test_processes_after_the_time_for_workers(tmp_path, compile_c):
    """The threads of each process that is listed are searched, too, to decide whether it is a worker. Each may have 30 000."""
    program = compile_c(ENGINES, "-pthread")
    engine = shutil.copy(program, tmp_path / "libgpufeed-engine.so")
    spent = compile_c(SPENT, "-shared", "-fPIC", name="spent.so")
    with subprocess.Popen([program, "50", engine], stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout.readline() == b"ready\n"
            subprocess.run(["/usr/bin/strace", "-e", "trace=openat", "-o", tmp_path / "trace", "-E", f"LD_PRELOAD={spent}", COMMAND, "top", "-n1"],
                           capture_output=True, timeout=100, check=True)
        finally:
            one.kill()
    assert not re.search('/proc/[0-9]+/task/[0-9]+/comm"', (tmp_path / "trace").read_text())


# Each open of the report takes 1 s, or is not answered. The test counts those by its own command: another test may run `top`, too.
SLOW_REPORTS, SILENT_REPORTS = (FUSE.replace("import ctypes", "import ctypes, time").replace("while True", """
def note(request):
    with open(f"/proc/{struct.unpack_from('<I', request, 32)[0]}/environ", "rb") as environment:
        if f"MOUNT={folder}\\0".encode() in environment.read(): print(1, flush=True)
while True""").replace("node == 3: continue", f"node == 3: note(request); {then}")
    for then in ["time.sleep(1); out = struct.pack('<QII', 1, 0, 0)", "continue"])


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this kernel has no FUSE")
@pytest.mark.parametrize("server, screens, most", [(SLOW_REPORTS, 1, 5), (SILENT_REPORTS, 3, 16)], ids=["slow", "silent"])
def test_slow_reports_of_another_user(other, shared, compile_c, monkeypatch, server, screens, most):
    """Each report is answered before the time for one process is over, or each keeps a child of the command. A third user has time left."""
    monkeypatch.setenv("MOUNT", f"{shared}/mount")
    program = shutil.copy(compile_c(ENGINES, "-pthread"), shared)
    engine = shutil.copy(program, shared / "libgpufeed-engine.so")
    (shared / "mount").mkdir()
    with subprocess.Popen([sys.executable, "-c", server, shared / "mount", "/etc/passwd", "none"], stdout=subprocess.PIPE) as one:
        try:
            if one.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            with other.start([program, "40", engine], stdout=subprocess.PIPE, env={"GPUFEED_REPORT": f"{shared}/mount/report"}) as many:
                assert many.stdout.readline() == b"ready\n"
                with subprocess.Popen([program, "1", engine], stdout=subprocess.PIPE, user="daemon",
                                      env={"GPUFEED_REPORT": f"{shared}/third"}) as third:
                    (shared / "third").write_text('{"pid":%d,"schema":1,"ran_s":3661}' % third.pid)
                    done = bounded("top", "-n", screens)
                    third.kill()
                many.kill()
        finally:
            one.kill()
            opened = one.stdout.read().split()
            subprocess.run(["umount", "-l", shared / "mount"], check=False)
    assert re.search(rb"^ *%d .* 1:01:01 " % third.pid, done.stdout, re.M), done
    assert done.stdout.count(b"has no figures yet, or they cannot be read") >= 40 and 1 <= len(opened) <= most, (opened, done)


@pytest.mark.parametrize("words", [["top", "-n1"], ["top", "--json"], ["top", "no-job"], ["stacks", "no-job"]])
def test_a_child_that_cannot_be_started(tmp_path, compile_c, words):
    fails = compile_c("#include <errno.h>\nint fork(void) { errno = EAGAIN; return -1; }", "-shared", "-fPIC", name="fails.so")
    done = subprocess.run(["/usr/bin/env", f"LD_PRELOAD={fails}", COMMAND, *words], capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and b"cannot start a child process" in done.stderr and b"No process" not in done.stdout, done


MAPPED = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.mmap.restype = ctypes.c_void_p
os.chdir(sys.argv[1])
for _ in range(15):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
file = os.open("f", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
for i in range(20000):
    libc.mmap(None, 4096, 1 + i % 2, 1, file, 0)
print("ready", flush=True)
time.sleep(100)
"""


MANY_BEFORE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
struct dirent64 *readdir64(DIR *folder) {
    static struct dirent64 ended;
    static int count;
    snprintf(ended.d_name, sizeof(ended.d_name), "%d", 1000000000 + count);
    return count++ < 100000 ? &ended : ((struct dirent64 *(*)(DIR *))dlsym(RTLD_NEXT, "readdir64"))(folder);
}
"""


def test_a_process_after_many_others(hostile, compile_c):
    """Another user may have 100 000 processes, whose ids are smaller."""
    one = hostile(1)
    preload = compile_c(MANY_BEFORE, "-shared", "-fPIC", "-ldl", name="many.so")
    done = subprocess.run(["/usr/bin/env", f"LD_PRELOAD={preload}", COMMAND, "top", "--json"], capture_output=True, timeout=60, check=False)
    assert one.pid in [row["pid"] for row in json.loads(done.stdout)["processes"]], done


def test_a_long_list_of_mappings(tmp_path):
    """The kernel's default limit permits a list of 246 MB in each process."""
    with subprocess.Popen([sys.executable, "-c", MAPPED, tmp_path], stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout.readline() == b"ready\n"
            done = subprocess.run(["/bin/sh", "-c", f"{COMMAND} top -n1 {one.pid}; cat /proc/$$/io"], capture_output=True, timeout=60, check=True)
        finally:
            one.kill()
    assert int(re.search(rb"rchar: (\d+)", done.stdout)[1]) < 40e6, done


def test_a_library_of_huge_pages(tmp_path):
    """If the process truncates the file while it is mapped, no page can be put in place of its bytes."""
    elf(tmp_path / "e.so", 1, b"1234")
    file = os.memfd_create("e.so", os.MFD_HUGETLB)
    os.ftruncate(file, 2 << 20)
    try:
        memory = mmap.mmap(file, 2 << 20)
    except OSError:
        pytest.skip("no huge page is reserved")
    memory[:(tmp_path / "e.so").stat().st_size] = (tmp_path / "e.so").read_bytes()
    for path in tmp_path / "e.so", f"/proc/{os.getpid()}/fd/{file}":
        (tmp_path / "log").write_text(ONE_PROCESS + stall(1, stack='["0+10"]', modules='[{"path":"%s","build_id":"31323334"}]' % path))
        assert (b"f+0x10" in bounded("report", tmp_path / "log", "--events").stdout) == (path == tmp_path / "e.so")


@pytest.mark.parametrize("kind", ["fifo", "device", "large", "link"])
def test_report_of_a_process(hostile, tmp_path, kind):
    """The path of the report is text of the process."""
    path = tmp_path / "report"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = pathlib.Path("/dev/ptmx")
    elif kind == "link":
        path.symlink_to("/dev/ptmx")
    one = hostile(0, report=path)
    if kind == "large":
        path.write_text('{"pid":%d,"schema":1,"a":[' % one.pid + "{}," * 4000000 + "0]}")
    done, calls = opened(one.pid, "top", "-n1")
    assert done.returncode == 0
    reads = [line for line in calls.splitlines() if f"/root{path}" in line]
    assert reads and (kind == "large" or all("O_PATH" in line for line in reads)), reads
    assert bounded("top", "-n1", one.pid).returncode == 0


def test_rates_of_a_tiny_time(hostile, tmp_path):
    """A number that a report may have, divided by a time that it may have, would be infinite."""
    one = hostile(0, report=tmp_path / "report")
    (tmp_path / "report").write_text('{"pid":%d,"schema":1,"ran_s":5e-324,"steps":{"ended":1e17},"stalls":{"us":1}}' % one.pid)
    row, = json.loads(bounded("top", "--json", one.pid).stdout)["processes"]
    assert row["source"] == "report_file" and row["ran_s"] == row["stalled_share"] == 0, row


def test_the_command_line_of_a_process(hostile, tmp_path):
    one = hostile(0, report=tmp_path / "report", name="a\x1b[31m\u202e\x9bb")
    (tmp_path / "report").write_text('{"pid":%d,"schema":1}' % one.pid)
    for flags in ["-n1"], ["--json"]:
        text = bounded("top", *flags, one.pid).stdout.decode()
        assert re.search("a\\?.31m\\?+b", text) and not RAW.search(text), text


def test_a_trace_for_a_terminal(tmp_path):
    """The bytes of PyTorch's trace are copied as they are."""
    (tmp_path / "log").write_text(ONE_PROCESS)
    (tmp_path / "trace").write_text('{"traceEvents":[{"name":"\x1b[31m"}]}')
    for path in "/dev/tty", "/dev/stdout", "-":
        words = f"{COMMAND} report --perfetto={path} --with {tmp_path}/trace {tmp_path}/log"
        shown = subprocess.run(["script", "-qc", words, "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).stdout
        assert b"\x1b" not in shown and b"write --perfetto to a file" in shown, shown
    assert b"\x1b" in subprocess.run(words.split(), capture_output=True, timeout=60, check=True).stdout
