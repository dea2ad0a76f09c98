# SPDX-License-Identifier: Apache-2.0
"""The Python module gpufeed (python/gpufeed): with and without the preload, in every installed Python."""
import json
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from conftest import SOURCE, START_COPIES
from schemakit import REPORT
from test_python import DEBIAN, PYTHONS

MODULE = SOURCE / "python"

@pytest.fixture
def program(run, tmp_path):
    """program(script, ...) runs a script with the module in its path. It prints one line of JSON."""
    def call(script, python=DEBIAN, **env):
        path = tmp_path / "program.py"
        path.write_text("import ctypes, json, os, sys\nimport gpufeed\n" + textwrap.dedent(script))
        settings = {"preload": True, "sim": True, "PYTHONPATH": f"{MODULE}:{tmp_path}", "PYTHONDONTWRITEBYTECODE": 1}
        settings.update(env)
        found = run(python, "-W", "error", path, cwd=tmp_path, **settings)
        assert found.returncode == 0 and found.stderr == "", found.stderr
        return json.loads(found.stdout)
    return call


EVERYTHING = """
    import asyncio

    @gpufeed.step
    def bare(a, b=2):
        return a + b

    @gpufeed.step()
    def called():
        return gpufeed.stats()["steps"]["current"]

    @gpufeed.step(40)
    async def awaited():
        await asyncio.sleep(0)
        return called()

    numbers = []
    with gpufeed.step() as number:
        numbers.append(number)
    numbers += [bare(1, b=1), called(), asyncio.run(awaited())]
    try:
        with gpufeed.step(7) as number:
            with gpufeed.step() as inner:  # a step in progress stays
                numbers += [number, inner]
            raise KeyError
    except KeyError:
        numbers.append(gpufeed.stats()["steps"]["current"])
    with gpufeed.step() as number:  # after the largest number, 40
        numbers.append(number)
    for wrong in (lambda: gpufeed.step(0), lambda: gpufeed.step(-1), lambda: gpufeed.set_step(-1)):
        try:
            wrong()
            numbers.append("no error")
        except ValueError:
            pass
    steps = gpufeed.stats()["steps"]
    print(json.dumps([numbers, steps["ended"], gpufeed.version(), gpufeed.active(), bare.__name__]))
"""


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_with_and_without_the_preload(program, version):
    python = PYTHONS[version]
    without = program(EVERYTHING, python, preload=False)
    assert without == [[1, 2, None, None, 7, 7, None, 41], 0, None, False, "bare"]
    with_it = program(START_COPIES + textwrap.dedent(EVERYTHING), python)
    assert with_it == [[1, 2, 3, 40, 7, 7, None, 41], 6, "0.1.0", True, "bare"]


def test_without_the_preload_all_figures_are_zero(program):
    found = program('print(json.dumps([gpufeed.stats(), gpufeed.report(), gpufeed.node()]))', preload=False)
    nothing = {"calls": 0, "bytes": 0, "seconds": 0.0}
    way = {"staged": nothing, "pinned": nothing, "driver": nothing}
    assert found == [{"version": None, "active": False, "observe": False, "seconds": 0.0, "gpus": [], "node": None,
                      "bound": False, "steps": {"ended": 0, "seconds": 0.0, "current": None}, "stalls": {},
                      "to_device": way, "from_device": way, "ring_bytes": 0, "gpu_seconds": 0.0, "gpu_idle_seconds": 0.0,
                      "idle_share": None}, None, None]


def test_inactive_before_cuda_and_in_children_and_when_off(program):
    script = textwrap.dedent("""
        def state():
            return [gpufeed.active(), gpufeed.report() is not None]
        states = [state()]
    """) + START_COPIES + textwrap.dedent("""
        states.append(state())
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, json.dumps(state()).encode())
            os._exit(0)
        os.waitpid(child, 0)
        print(json.dumps([*states, json.loads(os.read(reading, 100))]))
    """)
    assert program(script) == [[False, False], [True, True], [False, False]]
    assert program(script, GPUFEED="off") == [[False, False]] * 3


def test_figures_are_those_of_the_report(program, tmp_path):
    log, file = tmp_path / "log", tmp_path / "r.json"
    found = program(START_COPIES + textwrap.dedent("""
        copy(3)
        before = gpufeed.stats()
        for _ in range(4):
            with gpufeed.step():
                copy(5)
                assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8 << 20)) == 0  # slow: a stall
        print(json.dumps([before, gpufeed.stats(), gpufeed.report()]))
    """), GPUFEED_REPORT=file, GPUFEED_LOG=log, SIM_DELAY="cuMemAlloc_v2:3000")
    before, after, report = found
    assert REPORT.errors(report) == [] and report["state"] == "running"
    calls = [sum(way["calls"] for way in stats["to_device"].values()) for stats in (before, after)]
    assert calls == [3, 23]
    assert sum(way["bytes"] for way in after["to_device"].values()) == 23 * 8 << 20
    assert after["gpus"] == ["NVIDIA H200"] and after["active"] and not after["observe"]
    assert after["gpu_seconds"] >= after["gpu_idle_seconds"] >= 0
    assert after["idle_share"] is None or abs(after["idle_share"] * after["gpu_seconds"] - after["gpu_idle_seconds"]) < 1e-6
    assert before["steps"] == {"ended": 0, "seconds": 0.0, "current": None} and report["steps"]["current"] is None
    assert after["steps"]["ended"] == 4 and after["steps"]["seconds"] > 0
    assert after["stalls"] and {cause: row["count"] for cause, row in report["stalls"]["causes"].items()}.keys() \
        >= after["stalls"].keys()

    sys.path.insert(0, str(MODULE))
    import gpufeed  # pylint: disable=import-outside-toplevel
    assert gpufeed.report(file) == json.loads(file.read_text()) and gpufeed.report(file)["state"] == "ended"
    flat = gpufeed.flat(gpufeed.report(file))
    assert flat["steps.ended"] == 4 and flat["transfers.ring.rings"] in (0, 1) and isinstance(flat["samples"], list)
    whole = list(gpufeed.events(log))
    steps = [event for event in whole if event["event"] == "steps"]
    assert [number for event in steps for number in event["steps"]] == [1, 0, 2, 0, 3, 0, 4, 0]
    assert all(len(event["after_us"]) == len(event["steps"]) and event["start"] <= event["mono"] for event in steps)
    assert {event.get("step") for event in whole} >= {None, 1, 2, 3, 4}
    log.write_text("half a li\n[]\n7\n" + 100000 * "[" + "\n" + log.read_text() + '{"event": "stal')
    assert list(gpufeed.events(log)) == whole
    for wrong in (log, SOURCE / "README.md"):
        with pytest.raises(ValueError, match="is not a report"):
            gpufeed.report(wrong)
    with pytest.raises(FileNotFoundError):
        gpufeed.report(tmp_path / "missing")


def test_snapshots_by_several_threads(program):
    """Each snapshot is complete, although the report grows, and the thread that writes the file takes the same
    lock."""
    assert program(START_COPIES + textwrap.dedent("""
        import threading
        whole = []
        def read():
            assert cuda.cuCtxSetCurrent(context) == 0
            for _ in range(30):
                copy(1)
                whole.append(gpufeed.report())
        threads = [threading.Thread(target=read) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        whole = [report for report in whole if report]  # None if another thread held the lock for 100 ms
        print(json.dumps([len(whole) > 0, all("costs_us" in report for report in whole)]))
    """), GPUFEED_REPORT="/dev/null") == [True, True]


FRAMEWORK = {
    "lightning/__init__.py": "",
    "lightning/pytorch.py": "class Callback:\n    pass\n",
    "transformers.py": "class TrainerCallback:\n    pass\n",
}


def test_callbacks(program, tmp_path):
    """A callback imports its framework; `import gpufeed` does not. The frameworks here are stubs that have only the
    base classes."""
    for name, text in FRAMEWORK.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = program("""
        from types import SimpleNamespace as State
        before = [name for name in ("lightning", "transformers", "IPython") if name in sys.modules]
        import gpufeed._steps, gpufeed.lightning, gpufeed.transformers, pickle
        def now():
            return gpufeed._steps._current
        seen, back = [], pickle.loads(pickle.dumps(gpufeed.lightning.StepCallback()))
        for batch in range(2):
            back.on_train_batch_start(None, None, None, batch)
            with gpufeed.step():
                seen.append(now())
        back.on_validation_start(None, None)
        seen.append(now())
        back.on_train_batch_start(None, None, None, 0)
        seen.append(now())
        back.on_exception(None, None, KeyError())
        seen.append(now())
        back, state = gpufeed.transformers.StepCallback(), State(global_step=8)
        for event in ("step_begin", "evaluate", "step_begin", "train_end"):
            getattr(back, "on_" + event)(None, state, None, model=None)
            seen.append(now())
        print(json.dumps([before, seen]))
    """, preload=False)
    assert found == [[], [1, 2, 0, 3, 0, 9, 0, 9, 0]]


def test_magic(program):
    """Uses a stub of IPython with the functions that the magic calls."""
    script = textwrap.dedent("""
        import io, contextlib
        from types import SimpleNamespace as State
        class Shell:
            def register_magic_function(self, function, magic_kind, magic_name):
                assert (magic_kind, magic_name) == ("line_cell", "gpufeed")
                self.magic = function
            def run_cell(self, cell):
                try:
                    exec(cell, globals())
                except KeyError:
                    return State(success=False)
                return State(success=True)
        def shown(*words):
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                shell.magic(*words)
            return text.getvalue()
        shell = Shell()
        gpufeed.load_ipython_extension(shell)
        said = [shown("")]
    """)
    assert program(script + "print(json.dumps(said))", preload=False) == [
        "gpufeed is not preloaded: start Jupyter by `gpufeed run -- jupyter lab`\n"]
    found = program(script + START_COPIES + textwrap.dedent("""
        copy(6)
        import time
        said_of_idle = shown("", "time.sleep(0.6)")
        said += [shown(""), shown("", "copy(2)"), shown("", "pass"), shown("", "gpufeed.set_step(5)"), shown("", "gpufeed.set_step(0)")]
        try:
            shown("", "raise KeyError")
            said.append("no error")
        except Exception as error:
            said += error._render_traceback_()
        print(json.dumps([said_of_idle, said]))
    """), GPUFEED="observe", GPUFEED_STALL_US=0)
    idle, found = found
    place = "gpufeed 0.1.0 on NVIDIA H200: not bound\n"
    assert re.match(re.escape(place) + r"the GPU had nothing to do (100\.0|9\d\.\d) % of 0\.\d s\nno stalls\n", idle), idle
    found = [re.sub("the GPU had nothing to do .*\n", "", text) for text in found]
    assert found == ["gpufeed 0.1.0 is not active: the process has not used CUDA, or GPUFEED is off\n",
                     place + "copied to the GPU: 48 MiB by the driver\nno stalls\n",
                     place + "copied to the GPU: 16 MiB by the driver\nno stalls\n",
                     place + "no stalls\n", place + "no stalls\n", place + "no stalls\n", "The cell failed; its error is shown above."]


def test_types():
    mypy = shutil.which("mypy")
    if not mypy:
        pytest.skip("mypy is not installed")
    found = subprocess.run([mypy, "--strict", "--cache-dir", "/dev/null", MODULE / "gpufeed"], capture_output=True,
                           text=True, check=False)
    assert found.returncode == 0, found.stdout
