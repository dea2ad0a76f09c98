# SPDX-License-Identifier: Apache-2.0
"""A program that made steps and stands still is named once, with its line, while it stands. One that waits for input or for
another thread or process, compiles, computes, is between two steps or is stopped is not."""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import textwrap
import time

import pytest
from conftest import COMMAND, SOURCE, Runner
from schemakit import read_log, read_report
from test_answers import START
from test_python import DEBIAN

# Makes 30 steps and then calls stand() in step 31.
STEPS = """
sys.path.insert(1, PYTHON)
import gpufeed
start()
def collective(seconds, own=False):
    sys.path.insert(1, EXAMPLES)
    import feed
    cuda, duration = feeder.libcuda, ctypes.c_uint64(seconds * 10**9)
    module, spin, words = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_void_p * 1)(ctypes.addressof(duration))
    feeder.check(cuda.cuModuleLoadData(ctypes.byref(module), feed.KERNELS))
    feeder.check(cuda.cuModuleGetFunction(ctypes.byref(spin), module, b"spin"))
    step()
    if own:
        feeder.check(cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, None, words, None))
    else:
        feeder.check(ctypes.CDLL("libnccl.so.2").gf_test_all_reduce(spin, None, duration))
    feeder.check(cuda.cuStreamSynchronize(None))
for number in range(1, 32):
    gpufeed.set_step(number)
    step()
    time.sleep(0.01)
"""

PROGRAMS = {
    "sleeps": ("""
        def read_shard():
            end = time.monotonic() + 50  # busy machines name it late
            while '"standstill"' not in open(os.environ["GPUFEED_LOG"]).read() and time.monotonic() < end:
                time.sleep(1)
        read_shard()
        gpufeed.set_step(32)
        time.sleep(1.5)
        gpufeed.set_step(0)
    """, {}),
    "sleeps_late": ("""
        import json
        def has_sample(report):
            stood = report["gpu_time"]["standstill"]
            return stood and report["samples"][-1]["at_s"] > stood["at_s"] + 2
        end = time.monotonic() + 16  # samples are then taken every 16 s
        while time.monotonic() < end:
            number += 1
            gpufeed.set_step(number)
            step()
            time.sleep(0.05)
        end = time.monotonic() + 12
        while not has_sample(json.load(open(os.environ["GPUFEED_REPORT"]))) and time.monotonic() < end:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    """, {}),
    # A collective waits for a peer, on the stream of other work, and so keeps the GPU busy.
    "collective": ("""
        def watch():
            end = time.monotonic() + 50
            while '"standstill"' not in open(os.environ["GPUFEED_LOG"]).read() and time.monotonic() < end:
                time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=watch).start()
        collective(60)
    """, {}),
    "long_kernel": ("""
        threading.Timer(4, os.kill, (os.getpid(), signal.SIGKILL)).start()
        collective(60, own=True)
    """, {}),
    "serves": ("""
        import asyncio
        asyncio.run(asyncio.sleep(4))
    """, {}),
    # An idle thread of a pool, a batching thread, a process for requests, a poll of a message queue; and a checkpoint that a thread writes.
    "waits": ("""
        import concurrent.futures, select
        def more_steps():
            for number in range(41, 71):
                gpufeed.set_step(number)
                step()
                time.sleep(0.01)
        def feed():
            feeder.check(feeder.libcuda.cuCtxSetCurrent(context))
            more_steps()
        def save():
            thread = threading.Thread(target=time.sleep, args=(3.5,))
            thread.start()
            thread.join()
        context = ctypes.c_void_p()
        feeder.check(feeder.libcuda.cuCtxGetCurrent(ctypes.byref(context)))
        poll = select.poll()
        poll.register(os.pipe()[0])
        requests = multiprocessing.Queue()
        threading.Timer(7.5, requests.put, (1,)).start()
        for wait in (lambda: threading.Event().wait(3.5), requests.get, lambda: poll.poll(3500), save):
            wait()
            more_steps()
        pool = concurrent.futures.ThreadPoolExecutor(1)
        pool.submit(feed).result()
        time.sleep(3.5)
    """, {}),
    # Requests in a queue of C, a counting semaphore of requests, a signal, and a selector without a time limit.
    "waits_for_requests": ("""
        import queue, select
        def more_steps():
            for number in range(41, 71):
                gpufeed.set_step(number)
                step()
                time.sleep(0.01)
        requests, count = queue.SimpleQueue(), threading.Semaphore(0)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGALRM, lambda *_: None)
        def later(function, *arguments):
            threading.Timer(3.5, function, arguments).start()
        later(requests.put, 1)
        requests.get()
        more_steps()
        later(count.release)
        count.acquire()
        more_steps()
        later(os.kill, os.getpid(), signal.SIGUSR1)
        signal.sigwait([signal.SIGUSR1])
        more_steps()
        signal.setitimer(signal.ITIMER_REAL, 3.5)
        signal.pause()
    """, {}),
    "compiles": ("""
        import torch._dynamo.eval_frame
        torch._dynamo.eval_frame.run(lambda: time.sleep(4))
    """, {"torch/__init__.py": "", "torch/_dynamo/__init__.py": "",
          "torch/_dynamo/eval_frame.py": """
              from torch._dynamo import convert_frame
              def run(function):
                  convert_frame.convert(function)
          """, "torch/_dynamo/convert_frame.py": """
              import subprocess
              def convert(function):
                  subprocess.run(["sleep", "4"])
          """}),
    "computes": ("""
        end = time.monotonic() + 4
        while time.monotonic() < end:
            pass
    """, {}),
    "has_ended": ("""
        gpufeed.set_step(0)
        time.sleep(4)
    """, {}),
    "is_stopped": ("""
        os.kill(os.getpid(), signal.SIGSTOP)
    """, {}),
}
LIMIT = dict(GPUFEED_STANDSTILL=2, GPUFEED_VERBOSE=1, PYTHONDONTWRITEBYTECODE=1)


def write(folder, text, packages):
    start = "import signal\n" + START + STEPS
    for name, places in {"PRELOAD_TESTS": SOURCE / "tests" / "preload", "PYTHON": SOURCE / "python", "EXAMPLES": SOURCE / "examples"}.items():
        start = start.replace(name, repr(str(places)))
    (folder / "program.py").write_text(start + textwrap.dedent(text), encoding="utf-8")
    for name, module in packages.items():
        (folder / "site-packages" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "site-packages" / name).write_text(textwrap.dedent(module), encoding="utf-8")


def stand(folder, name):
    write(folder, *PROGRAMS[name])
    env = Runner().env(sim=True, GPUFEED_LOG=folder / "log", GPUFEED_REPORT=folder / "report.json", **LIMIT)
    with subprocess.Popen([DEBIAN, folder / "program.py"], env=env, stderr=subprocess.PIPE, text=True) as program:
        if name == "is_stopped":
            os.waitpid(program.pid, os.WUNTRACED)
            time.sleep(4)
            program.send_signal(signal.SIGCONT)
        said = program.communicate(timeout=60)[1]
    return said, [event for event in read_log(folder / "log") if event["event"] in ("standstill", "resumed")], folder


@pytest.fixture(scope="module")
def stood(tmp_path_factory):
    with concurrent.futures.ThreadPoolExecutor(len(PROGRAMS)) as pool:
        return {name: pool.submit(stand, tmp_path_factory.mktemp(name), name) for name in PROGRAMS}


def test_a_standstill_is_named_once_and_its_end_is_logged(stood):
    said, events, _ = stood["sleeps"].result()
    assert [event["event"] for event in events] == ["standstill", "resumed"], said
    assert said.count("no step has ended for ") == 1 and said.count("a step has ended") == 0
    line = events[0]["text"]
    assert line.startswith("no step has ended for ") and " s (step 31): the submitting thread slept at program.py:" in line
    assert line.endswith(" in read_shard") and f"gpufeed: {line}\n" in said


def test_a_collective_that_waits_for_a_peer_is_no_progress(stood):
    said, events, _ = stood["collective"].result()
    assert [event["event"] for event in events] == ["standstill"], said
    assert ": waiting for the GPU at program.py:" in events[0]["text"] and " in collective" in events[0]["text"]


def test_a_standstill_is_in_the_report_at_once(stood):
    said, events, folder = stood["sleeps_late"].result()
    report = read_report(folder / "report.json")
    found = report["gpu_time"]["standstill"]
    assert [event["event"] for event in events] == ["standstill"] and found["ongoing"], (said, found)
    assert report["samples"][-1]["at_s"] > found["at_s"] + 2, report["samples"]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if not name.startswith("sleeps") and name != "collective"])
def test_other_pauses_are_not_named(stood, name):
    said, events, _ = stood[name].result()
    assert not events and "no step has ended" not in said


RANKS = """
rank, box = int(os.environ["RANK"]), os.environ["BOX"]
def read_shard():
    if rank == 2:
        time.sleep(1000)
def barrier():
    open(f"{box}/{rank}", "w").close()
    while len(os.listdir(box)) < 4:
        time.sleep(0.02)
read_shard()
barrier()
"""


def test_the_rank_that_others_wait_for_is_told_apart(tmp_path):
    write(tmp_path, RANKS, {})
    (tmp_path / "box").mkdir()
    (tmp_path / "out").mkdir()
    ranks = []
    for rank in range(4):
        env = Runner().env(sim=True, RANK=rank, WORLD_SIZE=4, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=4, BOX=tmp_path / "box",
                           GPUFEED_REPORT=tmp_path / "out" / "%r.json", **LIMIT)
        ranks.append(subprocess.Popen([DEBIAN, tmp_path / "program.py"], env=env, stderr=subprocess.DEVNULL))

    def standing():
        files = list((tmp_path / "out").glob("*.json"))
        found = [json.loads(file.read_text())["gpu_time"]["standstill"] for file in files]
        return len(found) == 4 and all(found)
    end = time.monotonic() + 60
    while not standing() and time.monotonic() < end:
        time.sleep(0.2)
    for program in ranks:
        program.kill()
        program.wait()
    assert [read_report(file)["gpu_time"]["standstill"]["step"] for file in (tmp_path / "out").glob("*.json")] == [31] * 4
    done = Runner()(COMMAND, "report", "--json", tmp_path / "out", preload=False)
    first = json.loads(done.stdout)["verdict"][0]
    late, *others = first.rstrip(".").split("; ")
    assert late.startswith("No step ended any more when the reports were written: rank 2 in step 31 for "), first
    assert " s: the submitting thread slept at program.py:" in late and late.endswith(" in read_shard")
    # On a busy machine, one of the others may have another cause than the rest, such as no CPU.
    ranks = [re.match(r"ranks? ([\d, ]+) in step 31 for ", other)[1].split(", ") for other in others]
    assert sorted(sum(ranks, [])) == ["0", "1", "3"] and any(other.endswith(" in barrier") for other in others), first
    assert "No rank differs" not in done.stdout
