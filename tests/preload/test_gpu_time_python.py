# SPDX-License-Identifier: Apache-2.0
"""The line of Python at which the GPU had nothing to do, and what worker processes did meanwhile."""

import json
import subprocess
import textwrap

import pytest
from conftest import SOURCE
from test_python import DEBIAN, PYTHONS

# A step submits a little work, as a training loop does, so that its thread becomes the feeding thread.
LOOP = """
import ctypes, multiprocessing, os, sys, threading, time
import feeder
memory = ctypes.c_uint64()
if __name__ == "__main__":
    feeder.start()
    feeder.check(feeder.libcuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)))
def step():
    feeder.check(feeder.libcuda.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(64)))
def steps(between):
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        step()
        between()
"""


WAITS = {"compile", "sleep", "lock", "waiting", "process", "gil", "few_workers", "transform", "storage", "worker_cpus", "workers_sleep"}


def line_of(text):
    """The number of the first such line of a program that begins with LOOP and LOCKED."""
    return (LOOP + LOCKED).split("\n").index(text) + 1


@pytest.fixture
def loop(run, tmp_path):
    """loop(script, causes) -> (the cause of most waiting, its line of Python, the summary). On a busy machine a
    program mostly waits for a CPU. So it runs again, for longer, until one of these causes is the largest."""
    def start(script, causes, python=DEBIAN, before="", enough=lambda device: True):
        program, report = tmp_path / "program.py", tmp_path / "report.json"
        program.write_text(before + LOOP + textwrap.dedent(script), encoding="utf-8")
        for seconds in (2, 8, 30):
            done = run(python, program, seconds, sim=True, PYTHONPATH=SOURCE / "tests" / "preload", GPUFEED_VERBOSE=1,
                       GPUFEED_REPORT=report, PYTHONDONTWRITEBYTECODE=1)
            assert done.returncode == 0, done.stderr
            device = json.loads(report.read_text())["gpu_time"]["devices"][0] if report.exists() else {"causes": {}, "lines": []}
            waits = {cause: share["s"] for cause, share in device["causes"].items() if cause in WAITS}
            lines = {line["cause"]: line for line in device["lines"]}
            assert all(line["s"] <= device["s"] for line in device["lines"]), device["lines"]
            most = max(waits, key=waits.get, default=None)
            if most in causes and most in lines and enough(device):
                break
        assert most in causes, device["causes"]
        return most, lines.get(most), done.stderr
    return start


def test_a_sleep_has_its_line(loop):
    _, line, summary = loop("""
        def wait_for_nothing():
            time.sleep(0.05)
        steps(wait_for_nothing)
    """, {"sleep"})
    assert line["function"] == "wait_for_nothing" and line["file"].endswith("/program.py")
    assert " at program.py:" in summary and " in wait_for_nothing\n" in summary


def test_what_follows_a_burst_of_launches_is_not_too_short_work(run, tmp_path):
    program, report = tmp_path / "program.py", tmp_path / "report.json"
    program.write_text(LOOP + textwrap.dedent("""
        def compute():
            for _ in range(300):
                step()
            end = time.monotonic() + 0.02
            while time.monotonic() < end:
                sum(range(100))
        steps(compute)
    """))
    done = run(DEBIAN, program, 4, sim=True, PYTHONPATH=SOURCE / "tests" / "preload", GPUFEED_REPORT=report, GPUFEED_VERBOSE=1,
               PYTHONDONTWRITEBYTECODE=1)
    assert done.returncode == 0, done.stderr
    causes = {cause: share["s"] for cause, share in json.loads(report.read_text())["gpu_time"]["devices"][0]["causes"].items()}
    # On a busy machine, much of that time is spent without a CPU.
    assert causes.get("launches", 0) < 0.1 * (causes["computing"] + causes.get("preempted", 0)), causes
    assert "in compute (move that work" in done.stderr


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_call_paths_of_two_chains_do_not_mix(loop, tmp_path, version):
    start = "program.py:<module>;program.py:steps;program.py:<lambda>;program.py:one;program.py:inner_of_one"
    expected = {start, "...;" + ";".join(["program.py:inner_of_other"] * 18)}

    def slept(device):
        return {path["path"] for path in device["paths"] if path["cause"] == "sleep"}

    loop("""
        def one():
            inner_of_one()
        def inner_of_one():
            time.sleep(0.02)
        def other():
            inner_of_other()
        def inner_of_other(depth=40):
            inner_of_other(depth - 1) if depth else time.sleep(0.02)
        both = itertools.cycle([one, other])
        steps(lambda: next(both)())
    """, {"sleep"}, PYTHONS[version], before="import itertools\n", enough=lambda device: expected <= slept(device))
    device = json.loads((tmp_path / "report.json").read_text())["gpu_time"]["devices"][0]
    assert expected <= slept(device)
    assert not [path for path in device["paths"] if "of_one" in path["path"] and "of_other" in path["path"]]
    assert sum(path["s"] for path in device["paths"]) <= sum(cause["s"] for cause in device["causes"].values()) + 0.01


def test_a_program_started_by_vfork_hides_nothing(loop):
    """subprocess starts programs by vfork. The child runs hooks in the memory of the thread that later feeds the GPU."""
    _, line, _ = loop("""
        def wait_for_nothing():
            time.sleep(0.05)
        steps(wait_for_nothing)
    """, {"sleep"}, before="import subprocess; subprocess.run(['true'], check=True)\n")
    assert line["function"] == "wait_for_nothing"


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_the_lock_is_blamed_on_its_holder(loop, version):
    """The main thread releases the GIL in each call of the driver, and then waits for it."""
    _, line, summary = loop("""
        def hold_the_lock():
            while True:
                sum(range(100))
        sys.setswitchinterval(0.1)
        threading.Thread(target=hold_the_lock, daemon=True).start()
        steps(lambda: None)
    """, {"gil"}, PYTHONS[version])
    assert line["function"] == line["holder"]["function"] == "hold_the_lock"
    assert f"Python's GIL, while another thread was at program.py:{line['line']} in hold_the_lock" in summary


LOCKED = """
import hashlib
lock, block = threading.Lock(), bytes(16 << 20)
def compute():
    hashlib.blake2b(block)
def hold_by_with():
    while True:
        with lock:
            compute()
        time.sleep(0.002)
def hold_by_call():
    while True:
        lock.acquire()
        compute()
        lock.release()
        time.sleep(0.002)
def have_had_it(): # its stack keeps the address of the lock's method
    for _ in "1":
        for _ in "2":
            for _ in "3":
                with lock:
                    pass
    while True:
        compute()
def sleep():
    while True:
        time.sleep(0.01)
def wait_for_the_lock():
    with lock:
        pass
def steps_with(*others):
    for other in others:
        threading.Thread(target=other, daemon=True).start()
    steps(wait_for_the_lock)
"""


@pytest.mark.parametrize("others", ["hold_by_with", "sleep, hold_by_with", "have_had_it, hold_by_with, wait_for_the_lock"])
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_a_lock_is_held_at_a_line_of_another_thread(loop, version, others):
    """Whatever the other threads do, also if they compute, have held the lock before, or wait for it."""
    _, line, summary = loop(LOCKED + f"steps_with({others})", {"lock"}, PYTHONS[version])
    assert line["function"] == "wait_for_the_lock"
    if version not in {"3.11", "3.12", "3.13"}:
        assert line["holder"] is None
        return
    assert line["holder"]["function"] == "hold_by_with" and line["holder"]["line"] == line_of("            compute()")
    assert f", while another thread was at program.py:{line['holder']['line']} in hold_by_with" in summary


@pytest.mark.parametrize("others", ["hold_by_call", "have_had_it, hold_by_call"])
def test_a_lock_that_is_held_without_with_is_blamed_on_no_thread(loop, others):
    """The thread that computes all the time does not hold the lock."""
    _, line, summary = loop(LOCKED + f"steps_with({others})", {"lock"})
    answer = next(text for text in summary.splitlines() if "waited for a lock" in text)
    assert line["holder"] is None and "another thread" not in answer


# As PyTorch's autograd does, a thread with a state of Python but without frames submits the work.
FRAMELESS = """
    import collections, functools, itertools, operator, queue, _thread
    handle, work = ctypes.c_void_p(), queue.SimpleQueue()
    feeder.check(feeder.libcuda.cuCtxGetCurrent(ctypes.byref(handle)))
    work.put((feeder.libcuda.cuCtxSetCurrent, handle))
    calls = itertools.starmap(operator.call, iter(work.get, None))
    _thread.start_new_thread(functools.partial(collections.deque, calls, 0), ())
    def step():
        work.put((feeder.libcuda.cuMemsetD8_v2, memory, 0, ctypes.c_size_t(64)))
"""


def test_a_thread_without_frames_has_the_line_of_the_thread_that_it_serves(loop):
    _, line, _ = loop(FRAMELESS + """
    def wait_for_nothing():
        time.sleep(0.05)
    steps(wait_for_nothing)
    """, {"sleep"})
    assert line["function"] == "wait_for_nothing"


def test_a_thread_without_frames_waits_for_the_holder_of_the_lock(loop):
    """The thread that it serves sleeps meanwhile."""
    _, line, _ = loop(FRAMELESS + """
    def hold_the_lock():
        while True:
            sum(range(100))
    sys.setswitchinterval(0.25)
    threading.Thread(target=hold_the_lock, daemon=True).start()
    steps(lambda: time.sleep(0.3))
    """, {"gil"})
    assert line["function"] == "hold_the_lock"


WORKERS = """
def load(queue):
    while True:
        queue.put(make())
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    queue = context.Queue(1)
    workers = [context.Process(target=load, args=(queue,), daemon=True) for _ in range({count})]
    for worker in workers:
        worker.start()
    steps(queue.get)
    for worker in workers:
        worker.kill()
"""


def with_workers(make, count, method="fork"):
    return textwrap.dedent(make) + WORKERS.format(count=count, method=method)


def test_a_worker_that_computes_needs_help(loop):
    """The machine's CPUs decide whether the cause is too few workers or too slow ones."""
    _, line, summary = loop(with_workers("""
        def make():
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                pass
            return 1
    """, 1), {"few_workers", "transform", "worker_cpus"})
    assert line["function"] == "make" and "waiting for workers" in summary


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_a_worker_of_its_own_program_has_its_line(loop, version, method):
    """Such a worker executes Python again. Without its frames, its sleep would be a wait for work."""
    _, line, _ = loop(with_workers("""
        def make():
            time.sleep(0.3)
            return 1
    """, 1, method), {"workers_sleep"}, PYTHONS[version])
    assert line["function"] == "make"


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_a_worker_with_a_subinterpreter_has_its_line(loop, version):
    """The newest interpreter is not the one of the worker's main thread."""
    _, line, _ = loop(with_workers("""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        kept = []
        def make():
            if not kept:
                kept.append(interpreters.create())
            time.sleep(0.3)
            return 1
    """, 1, "spawn"), {"workers_sleep"}, PYTHONS[version])
    assert line["function"] == "make"


def test_a_worker_that_waits_for_a_server_waits_for_storage(loop):
    _, line, summary = loop(with_workers("""
        import socket
        here, there = socket.socketpair()
        def answer():
            while there.recv(1):
                time.sleep(0.3)
                there.send(b"x")
        threading.Thread(target=answer, daemon=True).start()
        def make():
            here.send(b"?")
            return here.recv(1)
    """, 1), {"storage"})
    assert line["function"] == "make" and "wait for a file or the network" in summary


def test_a_producer_without_work_is_a_wait_for_data(loop):
    """The workers themselves wait for a queue, so the summary does not blame the workers."""
    loop(with_workers("""
        idle = multiprocessing.get_context("fork").Queue()
        def make():
            return idle.get()
        def fill():
            while True:
                time.sleep(0.3)
                idle.put(1)
        threading.Thread(target=fill, daemon=True).start()
    """, 2), {"process"})


def write_autograd(folder):
    """Writes modules with the names of PyTorch's, and returns the lines that make them importable."""
    packages = {"torch/__init__.py": "", "torch/autograd/__init__.py": "def backward(done):\n    done.acquire()\n",
                "torch/autograd/function.py": "def apply(call):\n    call()\n",
                "torch/_inductor/compile_fx.py": "import time\ndef compile_fx_inner():\n    time.sleep(0.05)\n"}
    for name, text in packages.items():
        (folder / "site-packages" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "site-packages" / name).write_text(text, encoding="utf-8")
    return f"import sys\nsys.path.insert(1, {str(folder / 'site-packages')!r})\n"


def test_a_thread_of_autograd_compiles_for_the_thread_that_waits_for_it(loop, tmp_path):
    """PyTorch compiles the backward pass when it first runs, in a thread of autograd."""
    _, line, summary = loop("""
        import _thread, torch.autograd, torch.autograd.function, torch._inductor.compile_fx as compiler
        def backward():
            done = _thread.allocate_lock()
            done.acquire()
            def run():
                torch.autograd.function.apply(compiler.compile_fx_inner)
                done.release()
            _thread.start_new_thread(run, ())
            torch.autograd.backward(done)
        steps(backward)
    """, {"compile"}, before=write_autograd(tmp_path))
    assert line["function"] == "backward", summary


# A thread of autograd: it submits work without frames of Python, and then calls Python.
AUTOGRAD = """
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
static sem_t asked, done;
static int (*submit)(unsigned long long, unsigned char, unsigned long);
static unsigned long long memory;
static void (*python)(void);
static void *run(void *set_current)
{
    for (((int (*)(void *))((void **)set_current)[0])(((void **)set_current)[1]);;) {
        sem_wait(&asked);
        usleep(20000); /* so that this thread ends the gap */
        submit(memory, 0, 64);
        python();
        sem_post(&done);
    }
    return 0;
}
void start(void *call, unsigned long long at, void (*back)(void), void **set_current)
{
    pthread_t thread;
    submit = (int (*)(unsigned long long, unsigned char, unsigned long))call, memory = at, python = back;
    sem_init(&asked, 0, 0), sem_init(&done, 0, 0);
    pthread_create(&thread, 0, run, set_current);
}
void backward(void) { sem_post(&asked), sem_wait(&done); }
"""


def compiles(device):
    return device["causes"]["compile"]["s"] > 2 * device["causes"].get("computing", {"s": 0})["s"]


def test_a_thread_of_autograd_that_feeds_the_gpu_compiles(loop, tmp_path):
    """It has no frames when it submits work, so the thread that called backward() is the one whose line is read."""
    (tmp_path / "autograd.c").write_text(AUTOGRAD, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "autograd.so", tmp_path / "autograd.c", "-pthread"], check=True)
    before = write_autograd(tmp_path)
    (tmp_path / "site-packages/torch/autograd/__init__.py").write_text("def backward(run):\n    run()\n", encoding="utf-8")
    (tmp_path / "site-packages/torch/_inductor/compile_fx.py").write_text(
        "def compile_fx_inner():\n    sum(range(3000000))\n", encoding="utf-8")
    _, line, summary = loop(f"""
        import torch.autograd, torch.autograd.function, torch._inductor.compile_fx as compiler
        engine = ctypes.CDLL({str(tmp_path / 'autograd.so')!r})
        back = ctypes.CFUNCTYPE(None)(lambda: torch.autograd.function.apply(compiler.compile_fx_inner))
        context = ctypes.c_void_p()
        feeder.check(feeder.libcuda.cuCtxGetCurrent(ctypes.byref(context)))
        current = (ctypes.c_void_p * 2)(ctypes.cast(feeder.libcuda.cuCtxSetCurrent, ctypes.c_void_p), context)
        engine.start(ctypes.cast(feeder.libcuda.cuMemsetD8_v2, ctypes.c_void_p), memory, back, current)
        def backward():
            torch.autograd.backward(engine.backward)
        steps(backward)
    """, {"compile"}, before=before, enough=compiles)
    assert line["function"] == "backward", summary
    assert compiles(json.loads((tmp_path / "report.json").read_text())["gpu_time"]["devices"][0]), summary


def test_a_thread_of_autograd_compiles_only_for_backward(loop, tmp_path):
    """A thread that waits for another thing does not wait for the backward pass of a third thread."""
    loop("""
        import torch.autograd.function, torch._inductor.compile_fx as compiler
        asked, done = threading.Event(), threading.Event()
        def answer():
            while asked.wait():
                asked.clear()
                time.sleep(0.02)
                done.set()
        def compile_always():
            while True:
                torch.autograd.function.apply(compiler.compile_fx_inner)
        threading.Thread(target=answer, daemon=True).start()
        threading.Thread(target=compile_always, daemon=True).start()
        def wait_for_a_thread():
            done.clear()
            asked.set()
            done.wait()
            time.sleep(0.1)
        steps(wait_for_a_thread)
    """, {"sleep"}, before=write_autograd(tmp_path))
    causes = json.loads((tmp_path / "report.json").read_text())["gpu_time"]["devices"][0]["causes"]
    assert "compile" not in causes, causes
