# SPDX-License-Identifier: Apache-2.0
"""gpufeed top: processes that show their report in memory, in a file, or wrongly."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import textwrap
import time

import pytest

from conftest import COMMAND, START_COPIES

PYTHON = "/usr/bin/python3"
HEADER = ["PID", "RANK", "RAN", "STEPS/S", "IDLE", "WHY", "IDLE", "TO", "GPU", "MiB/s", "FROM", "MiB/s", "STALLED", "MOST", "TIME", "BOUND", "GPU", "AND",
          "COMMAND"]
STEPPED = r" \d:\d\d:\d\d +(?!0\.0 )\d+\.\d .*NVIDIA H200"  # a report after the first step
NOTHING = "has no figures yet, or they cannot be read; set GPUFEED_LIVE=on or GPUFEED_REPORT"

# A program that copies, marks steps, prints its open descriptors, and runs until its standard input ends.
PROGRAM = "import ctypes, os, sys\n" + START_COPIES + """
step = ctypes.CDLL(None).gpufeed_step
for number in range(20):
    step(ctypes.c_ulonglong(number + 1))
    copy(1)
step(ctypes.c_ulonglong(0))
print(*(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
      flush=True)
sys.stdin.read()
"""

# A program that imitates the engine's file in memory, with the given header and text.
IMITATION = """
    import mmap, os, struct, sys
    name, magic, version, pid, sequence, length, text = eval(sys.argv[1])
    with open("libgpufeed-engine.so", "wb+") as file:
        file.truncate(4096)
        mapped = mmap.mmap(file.fileno(), 4096)
    with open("/proc/self/comm", "w") as file:
        file.write("gpufeed-live")
    fd = os.memfd_create(name)
    def show(sequence, length, text):
        os.pwrite(fd, text, 48)
        os.pwrite(fd, struct.pack("=8sIiQQQQ", magic, version, pid or os.getpid(), sequence, 48,
                                  len(text) if length is None else length, 0), 0)
    show(sequence, length, text)
    print("ready", flush=True)
    for line in sys.stdin:
        show(sequence + 1, None, b"")
        show(sequence + 2, None, line.encode())
"""


@pytest.fixture
def start(run, tmp_path):
    """start(script, word..., preload, ...) starts a program and waits for its first line, which it returns, too."""
    started = []

    def call(script, *words, preload=True, **env):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(script))
        process = subprocess.Popen([PYTHON, path, *words], env=run.env(preload=preload, sim=True, **env), cwd=tmp_path,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process, process.stdout.readline()
    yield call
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def top(run):
    def call(*words):
        found = run(COMMAND, "top", *words, preload=False)
        assert "\033" not in found.stdout
        return found
    return call


def row(top, process, until):
    """Returns the process's row of `top` once it matches. The row changes only when a thread of the library gets a
    CPU."""
    while True:
        found = top("-n", "1", process.pid)
        assert found.returncode == 0 and found.stderr == "", found.stderr
        header, line = found.stdout.splitlines()
        assert header.split() == HEADER and line.split()[0] == str(process.pid)
        if re.search(until, line):
            return line


def threads(process):
    names = []
    for tid in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{tid}/comm", encoding="utf-8") as file:
            names.append(file.read().strip())
    return names


def test_live(start, top):
    """The program's own descriptors are the same with and without the option."""
    without, files = start(PROGRAM)
    process, live_files = start(PROGRAM, GPUFEED_LIVE="on")
    assert sorted(live_files.split()) == sorted(files.split()) or \
        sorted(re.sub(r"\d+", "", files).split()) == sorted(re.sub(r"\d+", "", live_files).split())
    line = row(top, process, STEPPED)
    found = re.fullmatch(rf" *{process.pid}     -  \d:\d\d:\d\d +(\d+\.\d) +(?:\d+\.\d%|-) +[a-z_-]+ +(\d+) +0 +\d+\.\d%  [a-z-]+ +no +NVIDIA H200, {PYTHON} "
                         r"\S+/program\.py", line)
    assert found, line
    assert "gpufeed-live" in threads(process) and "gpufeed-live" not in threads(without)
    assert NOTHING in row(top, without, NOTHING)
    everything = top("-n", "1").stdout
    assert f"{process.pid}     -  0:" in everything and f"{without.pid}  {NOTHING}" in everything
    process.stdin.close()
    assert process.wait() == 0


def test_rates(start, top, run):
    """The first screen shows mean rates since the start. Later screens show the rates between the last two
    reports."""
    def report(seconds, steps, mib, us, idle=0.0):
        states = f'{{"empty": {{"s": {idle * seconds}}}, "queued": {{"s": {(1 - idle) * seconds}}}}}'
        return (f'{{"schema": 2, "start": {{"rank": {{"rank": 12}}}}, "gpu_time": {{"devices": [{{"states": {states}, "causes": '
                f'{{"data": {{"s": 1.0}}, "few_workers": {{"s": 2}}}}}}]}}, "ran_s": {seconds}, "steps": {{"ended": {steps}}}, "stalls": {{"us": {us}, "causes": '
                f'{{"lock": {{"us": 1}}, "faults": {{"us": 2}}}}}}, "transfers": {{"from_device": {{"pinned": '
                f'{{"bytes": {mib << 20}}}}}}}, "binding": {{"in_force": true}}}}')

    file = ("gpufeed-live", b"gpufeed\n", 1, 0, 2, None, report(10.0, 50, 400, 100000, 0.3).encode())
    process, _ = start(IMITATION, repr(file), preload=False)
    assert top("-n", "1", process.pid).stdout.splitlines()[1].split()[1:11] == [
        "12", "0:00:10", "5.0", "30.0%", "few_workers", "0", "40", "1.0%", "faults", "yes"]
    with subprocess.Popen([COMMAND, "top", "-n", "1000000", str(process.pid)], stdout=subprocess.PIPE, text=True,
                          env=run.env(preload=False)) as shown:
        first = [shown.stdout.readline(), shown.stdout.readline()][1].split()
        print(report(12.0, 110, 1000, 200000, 0.375), file=process.stdin, flush=True)
        following = [first]
        while "0:00:12" not in following[-2:][0]:  # two screens with the same report
            shown.stdout.readline()
            following.append(shown.stdout.readline().split())
        print(report(4.0, 8, 8, 0, 0.5), file=process.stdin, flush=True)  # another process has the same id
        for _ in range(60):  # lines of screens
            another = shown.stdout.readline().split()
            if "0:00:04" in another:
                break
        shown.kill()
    assert another[1:8] == ["12", "0:00:04", "2.0", "50.0%", "few_workers", "0", "2"]
    assert first[1:11] == ["12", "0:00:10", "5.0", "30.0%", "few_workers", "0", "40", "1.0%", "faults", "yes"]
    assert all(row[1:8] == ["12", "0:00:12", "30.0", "75.0%", "few_workers", "0", "300"] for row in following[-2:])


def test_json(start, top):
    """One line per reading, with the figures of the table. A process without figures has only its id."""
    process, _ = start(PROGRAM, GPUFEED_LIVE="on", RANK=3, WORLD_SIZE=4, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1)
    without, _ = start(PROGRAM)
    row(top, process, r" \d:\d\d:\d\d +(?!0\.0 )\d+\.\d .*NVIDIA H200")
    found = top("--json", process.pid)
    assert found.returncode == 0 and found.stdout.count("\n") == 1 and json.loads(found.stdout)["schema"] == 1
    shown, = json.loads(found.stdout)["processes"]
    assert (shown["pid"], shown["source"], shown["rank"], shown["bound"], shown["gpu"]) == (process.pid, "live", 3, False, "NVIDIA H200")
    assert shown["steps_per_s"] > 0 and shown["to_device_bytes_per_s"] > 0 and shown["from_device_bytes_per_s"] == 0 and shown["ran_s"] > 0
    assert 0 <= shown["idle_share"] <= 1 and shown["stalled_share"] >= 0 and shown["command"].endswith("/program.py")
    lines = top("--json", "-n", 2).stdout.splitlines()
    assert len(lines) == 2 and {"pid": without.pid, "source": None} in json.loads(lines[1])["processes"]


def test_report_file(start, top):
    process, _ = start(PROGRAM, GPUFEED_REPORT="r-%p.json")
    assert "  (report file) NVIDIA H200, " in row(top, process, "report file")
    other, _ = start(PROGRAM, GPUFEED_REPORT=f"r-{process.pid}.json", GPUFEED="off")
    found = top("-n", "1", other.pid)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == f"gpufeed top: process {other.pid} does not use libgpufeed, or has not used CUDA yet\n"


def test_a_job(start, top, run):
    """The processes of a job, by an id that no process has, and by a name. Each rank's report file is found."""
    rank = {"RANK": 3, "WORLD_SIZE": 8, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}
    first, _ = start(PROGRAM, GPUFEED_REPORT="r-%r.json", SLURM_JOB_ID="4194305", **rank)
    second, _ = start(PROGRAM, GPUFEED_LIVE="on", TORCHELASTIC_RUN_ID="my-job", GPUFEED_REPORT="s-%p.json")
    for process, job in ((first, "4194305"), (second, "my-job")):
        rows = []
        while len(rows) != 2:
            rows = top("-n", "1", job).stdout.splitlines()
        assert rows[1].split()[0] == str(process.pid)
    assert re.match(rf" *{first.pid}     3  \d:\d\d:\d\d ", row(top, first, "report file"))
    for job in ("x", "4194304"):
        found = top("-n", "1", job)
        assert (found.returncode, found.stdout) == (1, "") and found.stderr.count("\n") == 1
    assert found.stderr == "gpufeed top: cannot read process 4194304: no such process\n"
    assert top("-n", "1", "x").stderr.startswith("gpufeed top: no process of a job x uses libgpufeed now")


def test_a_process_that_ends(start, top):
    process, _ = start(PROGRAM, GPUFEED_LIVE="on")
    row(top, process, STEPPED)
    with subprocess.Popen([COMMAND, "top", "-n", "1000000", str(process.pid)], stdout=subprocess.PIPE, text=True) as shown:
        shown.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        shown.communicate()
        assert shown.returncode == 0
    found = top(process.pid)
    assert (found.returncode, found.stderr) == (1, f"gpufeed top: cannot read process {process.pid}: no such process\n")


REPORT = b'{"schema": 2, "pid": 1, "ran_s": 10.0, "steps": {"ended": 50}, "gpus": [{"name": "G\\u001b[31mPU"}]}'


@pytest.mark.parametrize("file, said", [
    (("gpufeed-live", b"gpufeed\n", 1, 0, 2, None, REPORT), "0:00:10       5.0 "),
    (("gpufeed-live", b"gpufeed\n", 2, 0, 2, None, REPORT), "has a later version of the library; use the gpufeed command of that version"),
    (("gpufeed-live", b"gpufeed\n", 1, 0, 3, None, REPORT), NOTHING),
    (("gpufeed-live", b"gpufeed\n", 1, 1, 2, None, REPORT), NOTHING),
    (("gpufeed-live", b"gpufood\n", 1, 0, 2, None, REPORT), NOTHING),
    (("gpufeed-live", b"gpufeed\n", 1, 0, 2, 1 << 60, REPORT), NOTHING),
    (("gpufeed-live", b"gpufeed\n", 1, 0, 2, len(REPORT) + 1, REPORT), NOTHING),
    (("gpufeed-live", b"gpufeed\n", 1, 0, 2, 0, b""), NOTHING),
    (("gpufeed-live", b"gpufeed\n", 1, 0, 2, None, b"{" * 10000), NOTHING),
    (("gpufeed-live", b"gpufeed\n", 1, 0, 2, None, b'{"schema": 2, "gpus": 7, "stalls": []}'), "0:00:00         - "),
    (("another", b"gpufeed\n", 1, 0, 2, None, REPORT), NOTHING),
])
def test_damaged_files(start, top, file, said):
    process, _ = start(IMITATION, repr(file), preload=False)
    line = top("-n", "1", process.pid).stdout.splitlines()[1]
    assert line.split()[0] == str(process.pid) and said in line and "\033" not in line


WRITER = """
    import mmap, os, struct, sys
    with open("libgpufeed-engine.so", "wb+") as file:
        file.truncate(4096)
        mapped = mmap.mmap(file.fileno(), 4096)
    with open("/proc/self/comm", "w") as file:
        file.write("gpufeed-live")
    fd = os.memfd_create("gpufeed-live")
    padding = " " * (600 << 10)
    for round in range(1 << 40):
        at, half = 4096 + (round % 2 << 20), 10 + round // 2 % 2 * 10
        text = f'{{"schema": 2, "ran_s": {half}, {padding}"steps": {{"ended": {7 * half:4}}}}}'.encode()
        head = [b"gpufeed\\n", 1, os.getpid(), 2 * round + 1, at, len(text), 0]
        os.pwrite(fd, text, at)
        os.pwrite(fd, struct.pack("=8sIiQQQQ", *head), 0)
        head[3] += 1
        os.pwrite(fd, struct.pack("=8sIiQQQQ", *head), 0)
        if round == 0:
            print("ready", flush=True)
"""


def test_beside_a_process_that_writes(start, top):
    """It writes all the time, each text over the one before the last. A row has the figures of one text, or there is none."""
    process, _ = start(WRITER, preload=False)
    seen = set()
    for _ in range(40):
        found = top("-n", "1", process.pid)
        assert (found.returncode, found.stderr) == (0, "")
        line = found.stdout.splitlines()[1]
        assert NOTHING in line or re.match(rf" *{process.pid}     -  \d+:\d\d:\d\d +7\.0 ", line), line
        seen.add(line.split()[2])
    assert len(seen) > 1  # newer ones, too


def test_a_process_of_another_user(start, run):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    process, _ = start(PROGRAM, GPUFEED_LIVE="on")

    def other(*words):
        return run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", COMMAND, "top", "-n", "1", *words, preload=False)
    found = other(process.pid)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith(f"gpufeed top: cannot read process {process.pid}: Permission denied"), found.stderr
    assert found.stderr.count("\n") == 1
    everything = other()
    assert str(process.pid) not in everything.stdout and "other users" in everything.stdout + everything.stderr


def test_a_terminal(start, top):
    """On a terminal, top reacts to single keys, redraws without colours, and uses the terminal's width. At its end it
    restores the terminal."""
    process, _ = start(PROGRAM, GPUFEED_LIVE="on")
    row(top, process, STEPPED)
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 40)) if hasattr(termios, "tcsetwinsize") else subprocess.run(
        ["stty", "cols", "40"], stdin=slave, check=True)
    before = termios.tcgetattr(slave)
    with subprocess.Popen([COMMAND, "top", str(process.pid)], stdin=slave, stdout=slave) as shown:
        seen = b""
        while seen.count(b"\033[H\033[J") < 2:
            seen += os.read(master, 4096)
        shown.send_signal(signal.SIGWINCH)
        while seen.count(b"\033[H\033[J") < 3:
            seen += os.read(master, 4096)
        os.write(master, b"q")
        assert shown.wait() == 0
    while select.select([master], [], [], 0)[0]:
        seen += os.read(master, 4096)
    assert termios.tcgetattr(slave) == before and seen.rstrip().endswith(b"\033[?25h")
    plain = re.sub(rb"\033\[[?0-9]*[a-zA-Z]", b"", seen)
    assert max(len(line) for line in plain.split(b"\r\n")) == 40
    os.close(master)
    os.close(slave)


COLUMNS = ["PID", "RANK", "RAN", "STEPS/S", "IDLE", "WHY IDLE", "TO GPU MiB/s", "FROM MiB/s", "STALLED", "MOST TIME", "BOUND", "GPU AND COMMAND"]


@pytest.mark.parametrize("width, missing", [
    (40, set(COLUMNS[1:]) - {"IDLE"}), (80, {"RAN", "TO GPU MiB/s", "FROM MiB/s", "MOST TIME", "BOUND", "GPU AND COMMAND"}),
    (100, {"RAN", "FROM MiB/s", "MOST TIME", "BOUND", "GPU AND COMMAND"}), (200, set())])
def test_a_narrow_terminal_drops_columns(start, top, width, missing):
    """The last column remains, with the command's name. `-n 1` has the terminal's width, too."""
    process, _ = start(PROGRAM, GPUFEED_LIVE="on")
    row(top, process, STEPPED)
    master, slave = pty.openpty()
    subprocess.run(["stty", "cols", str(width)], stdin=slave, check=True)
    assert subprocess.run([COMMAND, "top", "-n", "1", str(process.pid)], stdin=slave, stdout=slave, check=False).returncode == 0
    os.close(slave)
    text = b""
    while text.count(b"\n") < 2:
        text += os.read(master, 4096)
    os.close(master)
    header, line = text.decode().splitlines()
    assert re.split(" {2,}", header.strip()) == [name for name in COLUMNS if name not in missing] + ["COMMAND"] * bool(missing)
    assert max(len(header), len(line)) <= width and ("NVIDIA H200, /usr/bin/python3 " if not missing else "  python3 /") in line


@pytest.mark.parametrize("words, said", [
    (["1", "2"], "unexpected argument 2; see `gpufeed help top`"),
    (["-n", "0"], "0 is not a number of screens; see `gpufeed help top`"),
    (["-n"], "-n needs a value; see `gpufeed help top`"),
    (["--cuont=1"], "--cuont is not a flag (did you mean --count?)"),
])
def test_mistakes(top, words, said):
    found = top(*words)
    assert (found.returncode, found.stdout, found.stderr) == (2, "", f"gpufeed top: {said}\n")


def test_nobody_to_show(run):
    """Runs top in a new PID namespace, if the kernel permits one."""
    found = run("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", COMMAND, "top", "-n", "1",
                preload=False)
    if "unshare:" in found.stderr:
        pytest.skip("this container permits no process namespaces")
    assert found.stdout.splitlines()[1] == "No process of this user uses libgpufeed now."


LOADER = """
import multiprocessing, sys, time
sys.path[:0] = [{places!r}]
import feeder
def work(queue):
    while True:
        queue.put(b"x" * 4096)
if __name__ == "__main__":
    feeder.start()
    queue = multiprocessing.Queue(4)
    workers = [multiprocessing.Process(target=work, args=(queue,), daemon=True) for _ in range(6)]
    for worker in workers:
        worker.start()
    print(*(worker.pid for worker in workers), flush=True)
    sys.stdin.readline()
"""


def test_workers_are_counted_with_their_process(tmp_path, run):
    """The workers were forked after the first use of CUDA, so they have mapped the engine, too."""
    program = tmp_path / "program.py"
    program.write_text(LOADER.format(places=os.path.dirname(os.path.abspath(__file__))), encoding="utf-8")
    env = run.env(sim=True, GPUFEED_LIVE="on")
    with subprocess.Popen([PYTHON, program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        workers = process.stdout.readline().split()
        for _ in range(100):
            shown = run(COMMAND, "top", "-n", "1", preload=False).stdout
            line = next((line for line in shown.splitlines() if line.split()[:1] == [str(process.pid)]), "")
            if "(+6 workers, " in line:
                break
            time.sleep(0.1)
        rows = json.loads(run(COMMAND, "top", "--json", preload=False).stdout)["processes"]
        process.stdin.close()
        process.wait()
    assert re.search(r"\(\+6 workers, [0-6] asleep\) ", line), shown
    assert not {row["pid"] for row in rows} & set(map(int, workers))
    assert [row["workers"] for row in rows if row["pid"] == process.pid] == [6]
