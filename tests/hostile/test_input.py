# SPDX-License-Identifier: Apache-2.0
"""Logs, reports and processes of others, made so that reading them takes long. The CPU time and the memory of the command
are bounded by the size of its input."""

import base64
import collections
import fcntl
import hashlib
import itertools
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys

import pytest

from conftest import COMMAND, PRELOAD, SIM_DIR, START_COPIES, SYSCALL_KIT, needs_root

CPU_S = 2  # limit for inputs that take less than 0.5 s; the machine may be slow
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]")
PROCESS = ('{"event":"process","time":%d,"mono":1.0,"pid":%d,"tid":%d,"schema":2,"version":"0.1.0","program":"/x","ppid":1,"rank":%d,'
           '"host":"h%d","container":null,"job":{},"stall_us":1000}\n')
ONE_PROCESS = PROCESS % (1795866773, 7, 7, 0, 0)


def stall(i, tid=7, python="[]", stack="[]", modules="[]"):
    return ('{"event":"stall","time":1795866774.%06d,"mono":1331.7,"pid":7,"tid":%d,"call":"malloc","size":2,"us":2090,"start":1331.7,'
            '"parts_us":{"rest":2090},"thread":"t","cpu":0,"node":0,"block_node":null,"gpu":null,"cpu_us":1,"minor_faults":0,'
            '"major_faults":0,"waits":0,"preempted":0,"step":1,"python":%s,"stack":%s,"modules":%s,"cause":"lock","evidence":"x"}\n'
            % (i, tid, python, stack, modules))


# Exchanges two files after the first check of one of their paths, by stat or by an open with O_PATH. Or appends to a file
# before each read, up to 64 MiB. Or truncates a file that was mapped.
RACE = SYSCALL_KIT + r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static void swap(const char *path) {
    const char *from = getenv("SWAP_FROM"), *to = getenv("SWAP_TO");
    if (!from || !to || strcmp(path, to)) return;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE)) abort();
    unsetenv("SWAP_FROM");
}
int open64(const char *path, int flags, ...) {
    const int fd = ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64"))(path, flags, 0600);
    if (flags & O_PATH) swap(path);
    return fd;
}
int open(const char *path, int flags, ...) { return open64(path, flags); }
int stat64(const char *path, struct stat64 *ret) {
    const int result = ((int (*)(const char *, struct stat64 *))dlsym(RTLD_NEXT, "stat64"))(path, ret);
    if (getenv("SWAP_AT_STAT")) swap(path);
    return result;
}
int stat(const char *path, struct stat *ret) { return stat64(path, (struct stat64 *)ret); }
ssize_t read(int fd, void *buf, size_t size) {
    static char lines[1 << 16];
    static int times;
    const int grown = getenv("GROWS") && times++ < 1024 ? open64(getenv("GROWS"), O_WRONLY | O_APPEND) : -1;
    memset(lines, '\\n', sizeof(lines));
    if (grown >= 0 && (write(grown, lines, sizeof(lines)) < 0 || close(grown))) abort();
    return ((ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read"))(fd, buf, size);
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    void *const ret = ((void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap64"))(at, size, protection, flags, fd, offset);
    const char *name = fd >= 0 ? getenv("TRUNCATES") : NULL;
    struct stat mapped, named;
    if (name && !fstat(fd, &mapped) && !lstat(name, &named) && mapped.st_ino == named.st_ino && truncate(name, getenv("KEEPS") ? atol(getenv("KEEPS")) : 0)) abort();
    return ret;
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    return mmap64(at, size, protection, flags, fd, offset);
}
long syscall(long number, ...) {
    READ_ARGUMENTS(number, at)
    const long result = PASS_ON(number, at);
    if (number == SYS_openat && (at[2] & O_PATH)) swap((const char *)at[1]);
    return result;
}
"""


def race(compile_c, **variables):
    """Returns the variables with which a command loses the race for a path."""
    return {"LD_PRELOAD": compile_c(RACE, "-shared", "-fPIC", "-ldl", name="race.so"), **variables}


@pytest.fixture(scope="module")
def a_report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.json"
    env = {"LD_PRELOAD": str(PRELOAD), "LD_LIBRARY_PATH": str(SIM_DIR), "GPUFEED_REPORT": str(path), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", "import ctypes" + START_COPIES + "copy(2)\n"], env=env, check=True, timeout=60)
    return json.loads(path.read_text())


def bounded(*words, cpu_s=CPU_S, memory=1 << 30, cwd=None):
    """Runs the command with a limit of CPU time. Returns it, and the most memory that a child has used."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    done = subprocess.run([str(word) for word in (COMMAND, *words)], preexec_fn=limit, cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode >= 0, f"killed by {-done.returncode}"
    return done


OUTPUTS = [["--html", "out.html"], ["--prometheus", "out.prom"], ["--perfetto", "out.json"], ["--events"], ["--folded"], ["--json"], []]


def every_output(path):
    for flags in OUTPUTS:
        done = bounded("report", path, *flags, cwd=path.parent)
        assert done.returncode in (0, 1), done


def test_options(a_report, tmp_path):
    report = {**a_report, "options": {f"O{i}": {"value": "v", "origin": "environment"} for i in range(30000)}}
    (tmp_path / "r.json").write_text(json.dumps(report))
    every_output(tmp_path / "r.json")


def test_reports_in_a_file(a_report, tmp_path):
    small = {key: a_report[key] for key in ("schema", "version", "program", "started", "written_at", "ran_s", "state", "start")}
    text = "".join(json.dumps({**small, "options": {}, "stalls": {}, "pid": i % 2 * i}) + "\n" for i in range(10000))
    (tmp_path / "r.json").write_text(text)
    every_output(tmp_path / "r.json")


def test_samples_of_a_report(a_report, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps({**a_report, "samples": [{}] * 150000}))
    every_output(tmp_path / "r.json")


@pytest.mark.parametrize("same", [True, False])
def test_processes(tmp_path, same):
    (tmp_path / "log").write_text("".join(PROCESS % (1795866773, 7 if same else i + 2, i + 2, 0 if same else i, 0 if same else i)
                                          for i in range(20000)))
    every_output(tmp_path / "log")


def test_reports_and_processes_of_one_pid(a_report, tmp_path):
    small = {key: a_report[key] for key in ("schema", "version", "program", "started", "written_at", "ran_s", "state", "start")}
    (tmp_path / "log").write_text("".join(PROCESS % (1795866773, 7, 7, i, i) for i in range(10000)))
    (tmp_path / "r.json").write_text("".join(json.dumps({**small, "options": {}, "pid": 7, "started": i}) + "\n" for i in range(10000)))
    for flags in OUTPUTS:
        assert bounded("report", tmp_path / "log", tmp_path / "r.json", *flags, cwd=tmp_path).returncode in (0, 1)


def test_ranks_that_differ(tmp_path):
    """The GPU of each second rank is idle. Each rank has a stall."""
    gpu = '{"event":"activity","time":1795866873,"pid":%d,"interval_ms":99000,"gpus":[{"empty_ms":%d,"communicating_ms":9000}]}\n'
    wait = '{"event":"stall","time":1795866774,"mono":1.5,"pid":%d,"tid":9,"call":"malloc","us":2090,"start":1.5,"cause":"lock"}\n'
    (tmp_path / "log").write_text("".join(
        PROCESS % (1795866773, i + 2, i + 2, i, 0) + gpu % (i + 2, 80000 * (i % 2) + 1) + wait % (i + 2) for i in range(40000)))
    assert b"39999 " in bounded("report", "--by", "rank", "--top", 100000, tmp_path / "log", cpu_s=3).stdout
    assert bounded("report", tmp_path / "log", "--html", tmp_path / "page", cpu_s=4).returncode == 0
    assert bounded("report", tmp_path / "log", "--prometheus", "-", cpu_s=3, memory=256 << 20).stdout.count(b'cause="lock"} 1\n') == 40000
    answer = json.loads(re.search('<script type="application/json"[^>]*>(.*?)</script>', (tmp_path / "page").read_text(), re.S)[1])["answer"]
    # With 150 000 rows, the page's script would fail.
    assert (answer["job"]["ranks"], len(answer["ranks"]), len(answer["differing"])) == (40000, 10000, 10000)


def test_slow_steps_of_a_report(a_report, tmp_path):
    """Each step of the log is looked up among the report's slow steps, of which the library writes 8."""
    steps = {"event": "steps", "time": 1795866783, "mono": 11, "pid": 7, "tid": 7, "start": 1, "steps": list(range(1, 6001)),
             "after_us": [1000 * i + 9000 * (i // 3) for i in range(6000)]}
    (tmp_path / "log").write_text(ONE_PROCESS + json.dumps(steps, separators=(",", ":")) + "\n")
    report = {**a_report, "pid": 7, "program": "/x", "started": 1795866773, "start": {"rank": {"rank": 0}},
              "step_times": {"slow": [{}] * 100000}}
    (tmp_path / "r.json").write_text(json.dumps(report))
    done = bounded("report", "--by", "step", "--top", 5000, tmp_path / "log", tmp_path / "r.json", cpu_s=3)
    assert b"step 3000, rank 0" in done.stdout, done


def test_names_of_one_report(a_report, tmp_path):
    """Each name takes no space. A report of 4 MiB would be parsed for each of them."""
    for side in "AB":
        (tmp_path / side / "run").mkdir(parents=True)
    (tmp_path / "A" / "run" / "r.json").write_text(json.dumps({**a_report, "more": [0] * 700000}))
    for i in range(100):
        os.link(tmp_path / "A" / "run" / "r.json", tmp_path / "A" / "run" / f"{i}.json")
        (tmp_path / "A" / f"{i}.json").symlink_to("run/r.json")
    done = bounded("compare", tmp_path / "A", tmp_path / "B", cpu_s=2)
    assert b"A has reports of 1 runs" in done.stderr, done


def test_names_of_one_folder(a_report, tmp_path):
    """Each link takes no space. A folder with many names would be listed for each of them."""
    for side in "AB":
        (tmp_path / side / "run").mkdir(parents=True)
    for i in range(4000):
        (tmp_path / "A" / "run" / f"{i}").touch()
        (tmp_path / "A" / f"{i}").symlink_to("run")
    (tmp_path / "A" / "run" / "r.json").write_text(json.dumps(a_report))
    done = bounded("compare", tmp_path / "A", tmp_path / "B", cpu_s=1)
    assert b"A has reports of 1 runs" in done.stderr, done


def test_tables_of_a_page(a_report, tmp_path):
    """Each report has nodes of other names, so that the table of memory would have a column for each."""
    samples = [[{"heap": {"by_node": {str(100000 * i + k): 1 for k in range(500)} | {f"{0:0{k + 1}}": k for k in range(500)}}}] for i in range(20)]
    small = {key: a_report[key] for key in ("schema", "version", "program", "started", "written_at", "ran_s", "state", "start")}
    (tmp_path / "r.json").write_text("".join(json.dumps(
        {**small, "pid": i + 2, "samples": sample, "options": {f"O{i}.{k}": {"value": "v", "origin": "environment"} for k in range(500)}}) + "\n"
        for i, sample in enumerate(samples)))
    findings = [{"status": "problem", "summary": "x"}] * 2000
    for i in range(1010):
        (tmp_path / f"{i}.json").write_text('{\n' + json.dumps({"schema": 2, "findings": findings if i < 2 else []})[1:])
    assert bounded("report", tmp_path, "--html", tmp_path / "page", cpu_s=4).returncode == 0
    data = json.loads(re.search('<script type="application/json"[^>]*>(.*?)</script>', (tmp_path / "page").read_text(), re.S)[1])
    assert {node for row in data["locality"] for node in row["by_node"]} <= {str(node) for node in range(1024)} and len(data["locality"]) == 20
    assert len(data["settings"]) == len(data["doctors"]) == max(len(doctor["rows"]) for doctor in data["doctors"]) == 1000


@pytest.mark.parametrize("path", ["%x", "%x" + 500 * ";", "%x" + 500 * "<"], ids=["wide", "deep", "escaped"])
def test_paths_of_a_page(a_report, tmp_path, path):
    """Paths that differ in their first frame, that have many frames, or that grow in the page. The library writes 48."""
    paths = [{"cause": "sleep", "path": path % i, "s": 1} for i in range(60000 if path == "%x" else 7000)]
    (tmp_path / "r.json").write_text(json.dumps({**a_report, "gpu_time": {"devices": [{"paths": paths}]}}))
    assert bounded("report", tmp_path / "r.json", "--html", "page", cwd=tmp_path, cpu_s=2).returncode == 0
    page = (tmp_path / "page").read_text()
    assert len(page) < 9 << 20
    if not shutil.which("node"):
        pytest.skip("Node.js is not installed")
    data = re.search('<script type="application/json"[^>]*>(.*?)</script>', page, re.S)[1]
    tree = re.search("^function treeOf.*?^}$", page, re.S | re.M)[0]
    (tmp_path / "page.js").write_text(f"const data = {data};\n{tree}\nconsole.log(treeOf('', data.idle).us);\n")
    done = subprocess.run(["node", "--max-old-space-size=200", "page.js"], cwd=tmp_path, capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (6, 6)), timeout=120)
    assert done.returncode == 0 and done.stdout == f"{min(len(paths), 50000)}000000\n", done


def test_many_remedies(a_report, tmp_path):
    """Each finding of a doctor, and each report, has a remedy of its own."""
    small = {key: a_report[key] for key in ("schema", "version", "program", "started", "written_at", "ran_s", "state")}
    (tmp_path / "doctor.json").write_text('{\n"schema": 2, "findings": [%s]}' % ",".join(
        f'{{"status":"problem","summary":"{i}"}}' for i in range(40000)))
    (tmp_path / "r.json").write_text("".join(json.dumps({**small, "options": {}, "pid": i + 2, "verdict": {"remedy": str(i)}}) + "\n"
                                             for i in range(4000)))
    done = bounded("report", tmp_path, "--top=1", cpu_s=3)
    assert b"and 43996 more" in done.stdout, done.stdout[-2000:]


def test_standstills(a_report, tmp_path):
    """Each process stands in another step."""
    small = {key: a_report[key] for key in ("schema", "version", "program", "started", "written_at", "ran_s", "state")}
    (tmp_path / "r.json").write_text("".join(json.dumps(
        {**small, "options": {}, "pid": i + 2, "gpu_time": {"standstill": {"ongoing": True, "step": i, "cause": "sleep"}}}) + "\n"
        for i in range(25000)))
    done = bounded("report", tmp_path / "r.json", cpu_s=3)
    assert b"24996 more places" in done.stdout.replace(b"\n", b" "), done.stdout[:1000]


def test_modules_and_frames(tmp_path):
    modules = "[" + ",".join('{"path":"/p%d","build_id":"12"}' % i for i in range(50000)) + "]"
    stack = "[" + ",".join('"49999+%x"' % i for i in range(10000)) + "]"
    (tmp_path / "log").write_text(ONE_PROCESS + stall(1, stack=stack, modules=modules))
    every_output(tmp_path / "log")


def test_names_of_frames(tmp_path):
    """A frame of 6 bytes is printed as the name of its module, which has at most 255 bytes."""
    modules, count = '[{"path":"%s","build_id":"aa"}]' % ("m" * 1000), itertools.count()
    with open(tmp_path / "log", "w", encoding="ascii") as log:
        log.write(ONE_PROCESS + stall(0, stack="[" + ",".join(100000 * ['"0+1"']) + "]", modules=modules))
        for i in range(300):
            log.write(stall(i, stack="[" + ",".join(f'"0+{next(count):x}"' for _ in range(128)) + "]", modules=modules))
    for flags in ["--events"], ["--json"], ["--html", "page"]:
        done = bounded("report", *flags, tmp_path / "log", cwd=tmp_path, memory=96 << 20)
        assert done.returncode == 0 and len(done.stdout) < 20 << 20, done.stderr
    assert (tmp_path / "page").stat().st_size < 6 << 20


def test_modules_of_many_events(tmp_path):
    (tmp_path / "log").write_text(ONE_PROCESS + "".join(
        stall(i, stack=f'["0+{i:x}"]', modules="[" + ",".join('{"path":"/p%d-%d","build_id":"12"}' % (i, k) for k in range(16)) + "]")
        for i in range(2500)))
    every_output(tmp_path / "log")


def test_events_of_many_files(tmp_path):
    """The lines are merged by time, so the time must not grow with the product of lines and files."""
    text = "".join('{"event":"x","time":%d}\n' % (1795866774 + i) for i in range(10))
    for i in range(8000):
        (tmp_path / f"{i}.log").write_text(text)
    (tmp_path / "last.log").write_text('{"event":"y","time":1795866778}\n{"event":"z","time":1795866785}\n')
    done = bounded("report", "--events", "--since=2026-11-28 11:53:05", tmp_path, cpu_s=1)
    assert [line.split()[-1] for line in done.stdout.decode().splitlines() if line.strip()][-1] == "z:", done


def test_memory_that_is_short(tmp_path):
    """An answer from a part of the events would look like one from all of them."""
    (tmp_path / "log").write_text(ONE_PROCESS + "".join(stall(i, tid=i) for i in range(40000)))
    done = bounded("report", tmp_path / "log", memory=16 << 20)
    assert done.returncode == 1 and done.stdout == b"" and done.stderr.endswith(b"gpufeed: not enough memory\n"), done


@pytest.mark.parametrize("field", ["thread", "cause", "call"])
def test_names(tmp_path, field):
    (tmp_path / "log").write_text(ONE_PROCESS + "".join(
        stall(i, tid=i).replace(f'"{field}":', f'"{field}":"{i}","x":') for i in range(10000)))
    every_output(tmp_path / "log")


def elf(path, symbols, build_id, notes=0, each=100000, hole=0):
    """An ELF file with functions that all overlap, `notes` sections that all name the same `each` notes, and a sparse symbol table."""
    note = struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id
    wide = struct.pack("<IBBHQQ", 1, 2, 0, 1, 0, 1 << 40)
    table = bytes(24) + wide + b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, 2 * i + 1, 1) for i in range(symbols))
    filler = struct.pack("<III", 0, 0, 7) * each if notes else b""
    at = 64
    parts, offsets = [table, b"\0f\0\0\0\0\0\0", note, filler], []
    for part in parts:
        offsets.append(at)
        at += len(part) + -len(part) % 8
    sections = [struct.pack("<IIQQQQIIQQ", *[0] * 10)] + notes * [struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, offsets[3], len(filler), 0, 0, 4, 0)] + [
        struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, offsets[2], len(note), 0, 0, 4, 0),
        struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, offsets[0], 24 * hole or len(table), 3 + notes, 0, 8, 24),
        struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, offsets[1], 8, 0, 0, 1, 0)]
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 56, 0, 64, len(sections), 0)
    path.write_bytes(head + b"".join(part + bytes(-len(part) % 8) for part in parts) + b"".join(sections))
    if hole:
        os.truncate(path, offsets[0] + 24 * hole)


def elf_log(path, ids, frames=1500, spellings=1):
    modules = ["/." * k + str(path) for k in range(spellings)]
    return ONE_PROCESS + "".join(
        stall(i * 50 + k, stack="[" + ",".join('"0+%x"' % (0x200000 + i * 30 + j) for j in range(30)) + "]",
              modules=f'[{{"path":"{modules[(i + k) % spellings]}","build_id":"{name}"}}]')
        for k, name in enumerate(ids) for i in range(max(1, frames // 30 // len(ids))))


@pytest.mark.parametrize("build_id, spellings, symbols",
                         [("", 1, 500000), ("12345678", 1, 500000), ("12345678", 100, 500000), ("12345678", 1, 60)])
def test_a_crafted_library(tmp_path, build_id, spellings, symbols):
    """Each frame is in one function that contains all others. A search visits some of them, and finds it only among few."""
    elf(tmp_path / "e.so", symbols, bytes.fromhex("12345678"))
    (tmp_path / "log").write_text(elf_log(tmp_path / "e.so", [build_id], spellings=spellings, frames=3000))
    every_output(tmp_path / "log")
    named = bounded("report", tmp_path / "log", "--events").stdout
    assert (b"f+0x200000" in named) == (build_id != "" and symbols == 60), named[:2000]


@pytest.mark.parametrize("notes, each", [(60000, 100000), (500, 341)])
def test_notes_of_a_crafted_library(tmp_path, notes, each):
    elf(tmp_path / "e.so", 10, bytes.fromhex("12345678"), notes=notes, each=each)
    (tmp_path / "log").write_text(ONE_PROCESS + "".join(stall(k, stack=f'["0+{k:x}"]', modules="[" + ",".join(
        f'{{"path":"{tmp_path}/e.so","build_id":"{64 * k + i:x}"}}' for i in range(64)) + "]") for k in range(128)))
    assert bounded("report", tmp_path / "log", cpu_s=2).returncode == 0


def test_sparse_libraries(tmp_path):
    """Each has a symbol table that takes no space."""
    for i in range(40):
        elf(tmp_path / f"{i}.so", 10, struct.pack(">I", i), hole=15 << 20)
    (tmp_path / "log").write_text(ONE_PROCESS + "".join(stall(i, stack=f'["0+{i:x}"]', modules=json.dumps(
        [{"path": f"{tmp_path}/{i}.so", "build_id": f"{i:08x}"}], separators=(",", ":"))) for i in range(40)))
    assert bounded("report", tmp_path / "log", cpu_s=2, memory=64 << 30).returncode == 0


def test_a_large_report_is_refused(a_report, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(a_report)[:-1] + ',"a":[' + "{}," * 4000000 + "0]}")
    for flags in OUTPUTS[0], OUTPUTS[-1]:  # it is refused before the output matters
        done = bounded("report", tmp_path / "r.json", *flags, cpu_s=8, cwd=tmp_path)
        assert done.returncode == 1 and len(done.stderr.splitlines()) <= 2, done.stderr


def test_values_of_all_reports(a_report, tmp_path):
    """Each report is parsed into up to 50 times its size. A comma in a text counts as a value."""
    small = {key: a_report[key] for key in ("schema", "version", "program", "started", "written_at", "ran_s", "state", "start")}
    (tmp_path / "r.json").write_text("".join(json.dumps({**small, "options": {}, "pid": i + 2, "x": 3900000 * ","}) + "\n" for i in range(18)))
    done = bounded("report", tmp_path / "r.json", cpu_s=6)
    assert done.returncode == 1 and b"name fewer reports" in done.stderr, done


def test_equal_labels_of_metrics(run, a_report, tmp_path):
    """Names that are equal once they are made plain or cut. Prometheus refuses a file with two equal lines."""
    report = json.loads(json.dumps(a_report))
    report["stalls"]["causes"] = {f"a{end}": {"us": 1000000, "count": 1} for end in ("\x01", "\x02", "\u202e", "b" * 70, "b" * 71)}
    states = {f"s{end}": {"s": 1} for end in ("\x01", "\x02")}
    report["gpu_time"]["devices"] = [{"device": number, "states": states, "causes": states} for number in (0, 0.2, 1)]
    (tmp_path / "r.json").write_text(json.dumps(report))
    run(COMMAND, "report", tmp_path / "r.json", "--prometheus", tmp_path / "out.prom", preload=False)
    lines = [line for line in (tmp_path / "out.prom").read_text().splitlines() if line and line[0] != "#"]
    names = collections.Counter(line.rsplit(" ", 1)[0] for line in lines)
    assert not [name for name, count in names.items() if count > 1]
    assert any('cause="a?"} 2' in line for line in lines) and any('device="0",state="s?"} 4' in line for line in lines), lines


def test_negative_ranks_are_one(run, tmp_path):
    """A rank below 0 is no rank, so these processes have the same labels."""
    (tmp_path / "log").write_text("".join(PROCESS % (1795866773, 7, 7, rank, 0) for rank in (-1, -2, -(2**63))))
    run(COMMAND, "report", tmp_path / "log", "--prometheus", tmp_path / "out.prom", preload=False)
    assert (tmp_path / "out.prom").read_text().count("gpufeed_run_queue_delay_seconds_total{") == 1


@pytest.mark.parametrize("start", ["", ONE_PROCESS, '{"event":"x"', ONE_PROCESS + '{"event":"x"'], ids=["", "event", "cut", "event+cut"])
@pytest.mark.parametrize("end", ["", "\n" + stall(1)], ids=["", "event"])
def test_a_hole_of_terabytes(tmp_path, start, end):
    """A sparse file takes no space, and would take hours to read."""
    with open(tmp_path / "a.log", "w") as log:
        log.write(start)
        log.truncate(5 << 40)
        log.seek(0, os.SEEK_END)
        log.write(end)
    done = bounded("report", tmp_path)
    assert done.returncode == (0 if start or end else 1) and (not end or b"2.1 ms" in done.stdout), done


def test_a_hole_in_a_trace(tmp_path):
    (tmp_path / "log").write_text(ONE_PROCESS)
    for text in ("", '{"baseTimeNanoseconds":1,"traceEvents":['):
        with open(tmp_path / "trace", "w") as trace:
            trace.write(text)
            trace.truncate(5 << 40)
        done = bounded("report", tmp_path / "log", "--perfetto", tmp_path / "out", "--with", tmp_path / "trace", cpu_s=1, memory=8 << 40)
        assert done.returncode == 1 and b"File too large" in done.stderr, done
        os.truncate(tmp_path / "trace", 1 << 36)
        done = bounded("report", tmp_path / "log", "--perfetto", tmp_path / "out", "--with", tmp_path / "trace", cpu_s=1, memory=8 << 40)
        assert done.returncode == 1 and b"is not a trace of PyTorch's profiler" in done.stderr, done


def test_a_log_that_grows(run, tmp_path, compile_c):
    """The writer is faster than the reader. What the log had at the start is read."""
    (tmp_path / "a.log").write_text(ONE_PROCESS)
    done = run(COMMAND, "report", tmp_path / "a.log", "--json", preload=False, **race(compile_c, GROWS=tmp_path / "a.log"))
    assert json.loads(done.stdout)["input"]["bytes"] == len(ONE_PROCESS) < (tmp_path / "a.log").stat().st_size


def test_a_pipe_that_replaces_a_file(run, tmp_path, compile_c):
    """A folder of others: a name is a file when the folder is listed, and a pipe without a writer when it is opened."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.log").write_text(ONE_PROCESS)
    os.mkfifo(tmp_path / "pipe")
    done = run(COMMAND, "report", tmp_path / "folder", preload=False, timeout=20,
               **race(compile_c, SWAP_FROM=tmp_path / "pipe", SWAP_TO=tmp_path / "folder" / "a.log", SWAP_AT_STAT=1))
    assert done.returncode in (0, 1) and (tmp_path / "folder" / "a.log").is_fifo(), done


def test_a_device_that_replaces_a_file(run, a_report, tmp_path, compile_c):
    """Opening a device has effects: a watchdog starts, a tape rewinds. The file that was checked is read instead."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(a_report))
    (tmp_path / "planted").symlink_to("/dev/ptmx")
    done = run(COMMAND, "compare", tmp_path / "a.json", tmp_path / "b.json", preload=False,
               **race(compile_c, SWAP_FROM=tmp_path / "planted", SWAP_TO=tmp_path / "a.json"))
    assert done.returncode == 0 and (tmp_path / "a.json").is_symlink(), done


@needs_root
def test_a_pipe_of_another_user(run, other, shared):
    """A shell has put it among the operands: report /tmp/logs/*."""
    other.sh("mkfifo a.log")
    done = run(COMMAND, "report", shared / "a.log", preload=False, timeout=20)
    assert done.returncode == 1 and "no pipe of this user" in done.stderr, done


def test_a_program_that_is_truncated(run, tmp_path, compile_c):
    """Another process truncates the program's file once the command has mapped it. The command has inherited a blocked SIGBUS."""
    program, bus = shutil.copy("/bin/true", tmp_path), signal.SIGBUS
    block = [sys.executable, "-c", f"import os, signal, sys; signal.pthread_sigmask(0, [{bus}]); os.execv(sys.argv[1], sys.argv[1:])", COMMAND, "run"]
    done = run(*block, "--print", "--", program, preload=False, **race(compile_c, TRUNCATES=program))
    assert done.returncode == 0 and os.stat(program).st_size == 0, done
    for done in (run("/bin/sh", "-c", f"trap '' BUS; exec {COMMAND} run -- grep SigIgn /proc/self/status", preload=False),
                 run(*block, "--", "/bin/grep", "SigBlk", "/proc/self/status", preload=False)):
        # What starts the tests may ignore other signals.
        assert int(done.stdout.split()[1], 16) & 1 << bus - 1, done


def test_a_plan_on_a_terminal(run, tmp_path):
    """`run --print` names a program of another user, and arguments that a shell has read from names of files."""
    raw = [b"a\x9b31mb", b"a\xc2\x9b31mb", b"a\xe2\x80\xaeb", b"a\xffb", "\u00e4 \u6587".encode()]
    program = os.fsencode(tmp_path) + b"/" + raw[2]
    with open(program, "wb") as file:
        file.write(b"#!/bin/sh\n")
    os.chmod(program, 0o755)
    done = subprocess.run([COMMAND, "run", "--print", "--", program, *raw], env={**os.environ, "GPUFEED_LOG": "/x/\u202e"},
                          capture_output=True, check=False)
    text = done.stdout.decode(errors="surrogateescape")
    assert done.returncode == 0 and "program  " in text and "/a???b" in text and not re.search(RAW.pattern + "|[\ud800-\udfff]", text), done
    words = re.search("^arguments +(.*)$", text, re.M)[1]
    assert subprocess.run(["bash", "-c", f"printf %s, {words}"], capture_output=True, check=True).stdout == b"".join(word + b"," for word in raw)
    assert "'\u00e4 \u6587'" in words


@needs_root
@pytest.mark.parametrize("plant", ["link", "second name", "folder", "kernel"])
def test_a_planted_name_of_a_pipe_of_root(run, other, shared, plant):
    """The command would wait for ever, and take the bytes that are for a service, such as those of /run/initctl."""
    os.mkfifo(shared / "initctl", 0o600)
    other.sh("mkdir logs; ln -s ../initctl logs/a.log")
    if plant == "second name":
        (shared / "logs" / "a.log").unlink()
        os.link(shared / "initctl", shared / "logs" / "a.log")
    if plant == "folder":  # in which the shell finds logs/*
        other.sh("rm -r logs; ln -s . logs")
        (shared / "initctl").rename(shared / "a.log")
    if plant == "kernel":  # reading another one takes bytes, too
        other.sh("ln -sf /proc/meminfo logs/a.log")
    done = run(COMMAND, "report", shared / "logs" / "a.log", preload=False, timeout=20)
    assert done.returncode == 1 and "no pipe of this user" in done.stderr, done


def test_a_device_among_the_operands(run, tmp_path):
    (tmp_path / "a.log").symlink_to("/dev/zero")
    for flags in ([], ["--events"], ["--perfetto", tmp_path / "out", "--with", tmp_path / "a.log"]):
        done = run(COMMAND, "report", tmp_path / "a.log", *flags, preload=False, timeout=20)
        assert done.returncode == 1 and "cannot read" in done.stderr, done


def test_a_file_of_the_kernel(run, tmp_path):
    """Reading trace_pipe takes its bytes from the program that traces. Like it, this file has no size, and SEEK_DATA fails."""
    (tmp_path / "a.log").symlink_to("/proc/meminfo")
    done = run(COMMAND, "report", tmp_path / "a.log", tmp_path, "--json", preload=False)
    assert json.loads(done.stdout)["input"]["bytes"] == 0, done


def test_a_link_to_a_file_of_the_kernel(tmp_path):
    """The writer of a log names a file of /sys, such as the registers of a device. The close of tracefs' free_buffer discards the trace."""
    name = "/sys/kernel/uevent_seqnum"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link.json").symlink_to(name)
    (tmp_path / "log").write_text(ONE_PROCESS + stall(1, stack='["0+10"]', modules='[{"path":"%s","build_id":"12"}]' % name))
    for words in ["report", tmp_path / "log"], ["report", tmp_path / "folder"], ["compare", tmp_path / "folder/link.json", tmp_path / "log"]:
        subprocess.run(["/usr/bin/strace", "-ye", "openat", "-o", tmp_path / "trace", COMMAND, *words], capture_output=True, timeout=60, check=False)
        opens = [line for line in (tmp_path / "trace").read_text().splitlines() if line.endswith(f"<{name}>")]
        assert opens and all("O_PATH" in line for line in opens), opens


BACKWARDS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
off_t lseek64(int file, off_t at, int whence) {
    static int calls;
    if (whence == SEEK_DATA && ++calls > 1000) abort();
    if (whence == SEEK_DATA) at = 0, whence = SEEK_SET;
    return ((off_t (*)(int, off_t, int))dlsym(RTLD_NEXT, "lseek64"))(file, at, whence);
}
"""


def test_a_file_that_goes_back(run, tmp_path, compile_c):
    """A file system of FUSE may answer SEEK_DATA with an earlier offset, and so repeat the file without an end."""
    (tmp_path / "a.log").write_text(ONE_PROCESS + stall(1) * 2000)
    done = run(COMMAND, "report", tmp_path / "a.log", "--json", preload=False,
               LD_PRELOAD=compile_c(BACKWARDS, "-shared", "-fPIC", "-ldl", name="backwards.so"))
    assert done.returncode == 0 and 0 < json.loads(done.stdout)["input"]["bytes"] <= 65536, done


def test_a_file_with_a_lease(run, tmp_path):
    """A lease of the file's owner lets each open wait for 45 s."""
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)
    (tmp_path / "a.log").write_text(ONE_PROCESS)
    with open(tmp_path / "a.log", "r+") as log:
        fcntl.fcntl(log, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        done = run(COMMAND, "report", tmp_path / "a.log", preload=False, timeout=20)
    signal.signal(signal.SIGIO, old)
    assert done.returncode == 1 and "cannot read" in done.stderr, done


def test_own_pipes_are_read(run, tmp_path):
    (tmp_path / "log").write_text(ONE_PROCESS)
    os.mkfifo(tmp_path / "pipe")
    done = run("/bin/bash", "-c", f'cat log > pipe & "{COMMAND}" report pipe <(cat log) /dev/stdin --json < <(cat log)', preload=False,
               cwd=tmp_path)
    assert json.loads(done.stdout)["input"]["bytes"] == 3 * len(ONE_PROCESS), done


def test_names_of_files(run, tmp_path):
    """The names in a folder of others reach the terminal and the JSON as plain text."""
    with open(os.fsencode(tmp_path) + b"/a\x1b[31m\xe2\x80\xae\x9b.log", "w") as log:
        log.write('{"event":"x"\n')
    for flags in ([], ["--json"], ["--by=rank"], ["--html=-"]):
        done = run(COMMAND, "report", tmp_path, *flags, preload=False)
        assert "a?[31m???" in done.stdout and not RAW.search(done.stdout), done


def test_names_that_are_cut_within_a_character(tmp_path):
    """A name with an incomplete character has no row in the page, and the rows below it would move up."""
    name = "\u00e9" * 511
    (tmp_path / "a.log").write_text(ONE_PROCESS.replace("/x", name + "a") + "".join(
        stall(i, 7 + i, python='[{"file":"%s","line":1,"function":"%s"}]' % (name, name)).replace('"t"', f'"{name}"') for i in range(2)))
    device = {"samples": 1000, "states": {"empty": {"s": 1}}, "causes": {"lock": {"s": 1}}, "lines": [{"cause": "lock", "file": name, "line": 1, "function": name}]}
    (tmp_path / "r.json").write_text(json.dumps({"schema": 2, "started": 1795866773, "options": {}, "pid": 8, "gpu_time": {"devices": [device]}}))
    for flags in [], ["--by=thread"], ["--html", "out.html"], ["--perfetto", "out.json"], ["--folded", "--by=thread"]:
        done = subprocess.run([COMMAND, "report", "a.log", "r.json", *flags], capture_output=True, cwd=tmp_path, timeout=60, check=True)
        assert not RAW.search(done.stdout.decode()), done
    json.loads((tmp_path / "out.json").read_text())
    page = json.loads(re.search('id="data">(.*?)</script>', (tmp_path / "out.html").read_text())[1])
    assert len([lane for lane in page["lanes"] if lane["kind"] == "thread"]) == 2 and page["gpu"]["causes"] and None not in page["answer"]["verdict"]


def test_the_page_runs_only_its_own_script(run, a_report, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(a_report))
    run(COMMAND, "report", tmp_path / "r.json", "--html", tmp_path / "out.html", preload=False)
    page = (tmp_path / "out.html").read_text()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy and "default-src 'none'" in policy
    for element in ("script", "style"):
        body = re.search(f"<{element}>(.*?)</{element}>", page, re.S)[1]
        assert base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() in policy
    assert page.count("<script") == 2 and page.count("<style") == 1 and " style=" not in page
