# SPDX-License-Identifier: Apache-2.0
"""gpufeed stacks: the threads of a process that is not preloaded. A hung DataLoader is recognised by its workers in read and
its main thread in a wait."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import BUILD, COMMAND, START_COPIES

STACKS = BUILD / "src" / "tools" / "gpufeed-stacks"
pytestmark = pytest.mark.skipif(not STACKS.exists(), reason="gpufeed-stacks was not built: no static libunwind")

NESTED = """
import threading, time
def inner(): outer_of_inner()
def outer_of_inner(): time.sleep(100)
threading.Thread(target=inner, daemon=True, name="second").start()
print("ready", flush=True)
def first(): time.sleep(100)
first()
"""

SUBINTERPRETERS = """
import threading, time
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
run = getattr(interpreters, "run_string", None) or interpreters.exec
idle = [interpreters.create()]
def enter():
    run(interpreters.create(), "import time\\ndef inside(): time.sleep(100)\\ninside()")
threading.Thread(target=enter, daemon=True).start()
time.sleep(0.5)
idle += [interpreters.create(), interpreters.create()]
def outside(): time.sleep(100)
print("ready", flush=True)
outside()
"""

DEEP = """
import time
def deep(n):
    if n: return deep(n - 1)
    print("ready", flush=True)
    time.sleep(100)
deep(500)
"""

LOADER = """
import os
import torch
from torch.utils.data import DataLoader, Dataset
gate = os.pipe()
class Stuck(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        os.read(gate[0], 1)
        return torch.zeros(1)
def train():
    loader = iter(DataLoader(Stuck(), num_workers=2))
    print("ready", flush=True)
    next(loader)
train()
"""


def pythons():
    found = {pathlib.Path("/usr/bin/python3").resolve()}
    found.update(pathlib.Path(folder).expanduser().resolve() / "bin" / f"python3.{minor}"
                 for minor in range(9, 16) for folder in pathlib.Path("~/.pyenv/versions").expanduser().glob(f"3.{minor}.*"))
    return sorted(str(path) for path in found if path.exists())


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


def stacks(pid, *words, command=(COMMAND, "stacks")):
    return subprocess.run([*command, str(pid), *words], capture_output=True, text=True, timeout=60, check=False)


def threads(text):
    """(head, lines) of each thread."""
    parts = [part.splitlines() for part in re.split(r"\n\n?(?=thread )", text)[1:]]
    return [(lines[0], [line.strip() for line in lines[1:]]) for lines in parts]


def until(pid, wanted, seconds=60):
    """Runs `gpufeed stacks` until its output contains `wanted`, because the process reaches that state only some time
    after it is ready."""
    end = time.monotonic() + seconds
    while True:
        done = stacks(pid)
        assert done.returncode == 0, done.stderr
        if re.search(wanted, done.stdout):
            return done.stdout
        assert time.monotonic() < end, done.stdout
        time.sleep(0.1)


@pytest.mark.parametrize("python", pythons())
def test_lines_of_every_thread(started, python):
    one = started(python, "-c", NESTED)
    text = until(one.pid, r"waiting in .*\n *<string>:7 in first\n(.*\n)*thread .*waiting in .*\n *<string>:4 in outer_of_inner")
    found = threads(text)
    assert len(found) == 2, text
    (head, main), (_, second) = found
    assert head.startswith(f"thread {one.pid} ") and " waiting in " in head and "may use CPUs " in head, text
    assert main[:2] == ["<string>:7 in first", "<string>:8 in <module>"], text
    assert second[:2] == ["<string>:4 in outer_of_inner", "<string>:3 in inner"], text
    assert any("_start" in line for line in main), text
    assert one.poll() is None
    state = pathlib.Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    assert state in "SR"  # the process continues


@pytest.mark.parametrize("python", pythons())
def test_frames_of_all_interpreters(started, python):
    one = started(python, "-c", SUBINTERPRETERS)
    text = until(one.pid, r"waiting in .*\n *<string>:14 in outside\n(.*\n)*thread .*waiting in .*\n *<(string|script)>:2 in inside")
    (_, main), (_, entered) = threads(text)
    assert main[:2] == ["<string>:14 in outside", "<string>:16 in <module>"], text
    entered = [line.replace("<script>", "<string>") for line in entered]  # the name of such code from Python 3.14
    assert entered[:3] == ["<string>:2 in inside", "<string>:3 in <module>", "<string>:10 in enter"], text


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_frames_after_chroot(started, tmp_path):
    one = started("/usr/bin/python3", "-c", f"import os, time\nos.chroot({str(tmp_path)!r})\ndef inside():\n print('ready', flush=True)\n time.sleep(100)\ninside()")
    _, lines = threads(until(one.pid, "waiting in .*\n *<string>:5 in inside"))[0]
    assert lines[:2] == ["<string>:5 in inside", "<string>:6 in <module>"], lines


def test_a_deep_stack_says_that_frames_are_missing(started):
    one = started("/usr/bin/python3", "-c", DEEP)
    _, lines = threads(until(one.pid, "waiting in .*\n *<string>:6 in deep"))[0]
    assert lines[127:129] == ["<string>:4 in deep", "(outer frames are not shown)"], lines


def test_a_hung_loader(started):
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip("no PyTorch")
    one = started("/usr/bin/python3", "-c", LOADER)
    parent = until(one.pid, r"waiting in (poll|futex|select|pselect6),.*\n(.*\n)*.*DataLoaderIter._next_data")
    main = threads(parent)[0]
    assert re.search(r"waiting in (poll|futex|select|pselect6)", main[0]), parent
    assert "<string>:14 in train" in main[1], parent
    children = [int(pid) for pid in pathlib.Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()]
    assert len(children) == 2
    for child in children:
        text = until(child, r"waiting in read,.*\n.*in Stuck.__getitem__")
        head, lines = threads(text)[0]
        assert " waiting in read," in head and lines[0] == "<string>:9 in Stuck.__getitem__", text


def test_a_program_without_python(started):
    one = started("/bin/sh", "-c", "echo ready; sleep 100 & wait")
    text = until(one.pid, r"waiting in (wait4|rt_sigsuspend)")
    assert "Python" not in text and len(threads(text)) == 1 and threads(text)[0][1], text


def test_names_cannot_move_the_cursor(started):
    one = started(sys.executable, "-c", "import ctypes, time\n"
                  "ctypes.CDLL(None).prctl(15, b'a\\x1b[2Jb', 0, 0, 0)\nprint('ready', flush=True)\ntime.sleep(100)")
    text = until(one.pid, r'"a.\[2Jb"')
    assert "\x1b" not in text and '"a?[2Jb"' in text


def test_what_cannot_be_read():
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    assert stacks(ended.pid).stderr == f"gpufeed stacks: there is no process {ended.pid}, and no process of such a job\n"
    for bad in ("x", "0", "1x", "99999999999"):
        done = stacks(bad)
        # A process of another test may be one that cannot be read.
        assert done.returncode == 1 and done.stderr.endswith(f"gpufeed stacks: no process of a job {bad} uses libgpufeed now\n")
    assert stacks("-1").returncode == 2
    assert stacks("--help").stdout.startswith("Usage: gpufeed stacks [--children] [--python] [--all] [--json] PID|JOB")
    assert stacks("1", "2").stderr == "gpufeed stacks: unexpected argument 2; see `gpufeed help stacks`\n"
    bare = subprocess.run([COMMAND, "stacks"], capture_output=True, text=True, check=False)
    assert (bare.returncode, bare.stdout, bare.stderr) == (2, "", "gpufeed stacks: no process to show: gpufeed stacks PID\n")


FAMILY = """
import multiprocessing, threading, time
class Loader(threading.Thread):
    def __init__(self):
        self.first = 1
        super().__init__(name="loader-\\u03b1", daemon=True)
    def run(self): time.sleep(100)
def work(): time.sleep(100)
Loader().start()
multiprocessing.get_context("fork").Process(target=work, daemon=True).start()
time.sleep(0.2)
print("ready", flush=True)
time.sleep(100)
"""


def test_children_and_longest_stop(started):
    one = started("/usr/bin/python3", "-c", FAMILY)
    child = int(pathlib.Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text())
    text = stacks(one.pid, "--children", "--python").stdout
    stops = [float(ms) for ms in re.findall(r"^process \d+: .*, stopped for ([\d.]+) ms$", text, re.M)]
    assert re.findall(r"^process (\d+):", text, re.M) == [str(one.pid), str(child)], text
    assert text.endswith(f"2 processes were stopped one after another, the longest for {max(stops)} ms.\n")
    assert 0 < min(stops) and max(stops) < 3100 and " in work\n" in text and "      " not in text, text
    assert f"process {child}:" not in stacks(one.pid).stdout


def test_stacks_as_json(started):
    one = started("/usr/bin/python3", "-c", FAMILY)
    done = stacks(one.pid, "--json", "--children")
    found = json.loads(done.stdout)
    first, second = found["processes"]
    assert (first["pid"], first["python_read"], len(first["threads"]), len(second["threads"])) == (one.pid, True, 2, 1)
    frame = {"file": "<string>", "line": 13, "function": "<module>"}
    assert first["threads"][0]["python"] == [frame] and first["threads"][0]["native"], done.stdout
    assert found["longest_stop_s"] == max(row["stopped_s"] for row in found["processes"]) > 0


@pytest.mark.parametrize("python", pythons())
def test_names_of_pythons_threads(started, python):
    one = started(python, "-c", FAMILY)
    minor = int(re.search(r", Python 3\.(\d+)", stacks(one.pid).stdout)[1])
    loader = json.loads(stacks(one.pid, "--json", "--python").stdout)["processes"][0]["threads"][1]
    assert loader["python_name"] == ("loader-\u03b1" if 11 <= minor <= 13 else None) and not loader["native"], loader


COPIES = f"""
import ctypes, time
{START_COPIES}
copy(20)
ctypes.CDLL(None).gpufeed_step(ctypes.c_ulonglong(7))
print("ready", flush=True)
time.sleep(100)
"""


def states(text):
    """Returns the lines about the library, which precede those about threads."""
    head, rest = text.split("\n\n", 1)
    assert "thread" not in head.split("\n", 1)[0] and re.search(r"^process \d+: ", rest), text
    return head


@pytest.fixture
def hung(run, tmp_path):
    """Starts a process that waits for its copies to end."""
    made = []

    def go(**env):
        one = subprocess.Popen(["/usr/bin/python3", "-c", COPIES], env=run.env(sim=True, **env), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        made.append(one)
        assert one.stdout.readline() == "ready\n"
        return one
    yield go
    for one in made:
        one.kill()
        one.wait()
        one.stdout.close()


def test_state_of_a_process_with_the_library(hung):
    one = hung(GPUFEED_LIVE="on")
    text = states(until(one.pid, r"in the last 1\.\d s:\n +GPU 0: nothing to do 100 %\n +hooked calls: none\n"))
    assert text.startswith(f"libgpufeed in process {one.pid}:\n  GPU 0: NVIDIA H200 0000:00:06.0\n"), text
    assert "  step 7 is in progress\n" in text
    whole = text.split(" s since the first use of CUDA:\n")[1]
    copies = re.findall(r"copies to the GPU \((?:staged|driver)\): (\d+), ([\d.]+) MiB", whole)
    assert sum(int(calls) for calls, _ in copies) == 20 and sum(float(mib) for _, mib in copies) == 160, text
    assert re.search(r"hooked calls: .*cuMemcpyHtoD_v2 20", whole) and re.search(r"GPU 0: .*nothing to do \d+ %", whole)


def test_threads_of_driver_and_library_are_folded(hung):
    one = hung(GPUFEED_LIVE="on")
    text, whole = stacks(one.pid).stdout, stacks(one.pid, "--all").stdout
    helpers = re.findall(r'^thread \d+ "((?:cuda|gpufeed).*)"', whole, re.M)
    assert {"cuda-EvtHandlr", "gpufeed-live"} <= set(helpers), whole
    assert f'(not shown: {len(helpers)} threads named "cuda..." or "gpufeed..."; --all shows them)' in text
    assert not re.search('^thread \\d+ "(cuda|gpufeed)', text, re.M) and threads(text)[0][0].startswith(f"thread {one.pid} ")


def test_stacks_of_a_job(hung):
    one = hung(GPUFEED_LIVE="on", SLURM_JOB_ID="stacks-of-a-job")
    done = stacks("stacks-of-a-job", "--python")
    assert done.stdout.startswith(f"process {one.pid}: ") and "in copy" not in done.stderr, done


def test_state_of_a_stopped_process(hung):
    """The process cannot renew its figures, but its stacks are read."""
    one = hung(GPUFEED_LIVE="on")
    until(one.pid, "in the last ")
    one.send_signal(signal.SIGSTOP)
    text = stacks(one.pid).stdout
    assert re.match(rf"libgpufeed in process {one.pid} \(figures, \d+ s old\):\n", text) and "in the last " not in text, text
    assert threads(text)[0][0].startswith(f"thread {one.pid} ")


def test_state_from_the_report_file(hung):
    one = hung(GPUFEED_REPORT="r-%p.json")
    text = states(until(one.pid, r"hooked calls: .*cuMemcpyHtoD_v2 20"))
    assert re.match(rf"libgpufeed in process {one.pid} \(report file, \d+ s old\):\n", text) and "in the last " not in text, text


def test_state_that_cannot_be_read(hung):
    wanted = hung(GPUFEED_REPORT="/nonexistent/r.json")
    assert stacks(wanted.pid).stdout.startswith(f"libgpufeed in process {wanted.pid} has no figures yet, or they cannot be read\n\nprocess ")
    text = stacks(hung().pid).stdout
    assert re.match(r"libgpufeed in process \d+ has no figures yet, or they cannot be read; set GPUFEED_LIVE=on\n\nprocess ", text), text


def test_a_process_without_the_library_has_no_state(started):
    one = started("/bin/sh", "-c", "echo ready; sleep 100 & wait")
    assert stacks(one.pid).stdout.startswith(f"process {one.pid}: ")


def test_without_the_right(started):
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    one = started("/bin/sh", "-c", "echo ready; sleep 100 & wait")
    done = stacks(one.pid, command=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", STACKS))
    assert done.returncode == 1 and "does not permit" in done.stderr and done.stderr.count("\n") == 1, done.stderr
