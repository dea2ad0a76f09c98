# SPDX-License-Identifier: Apache-2.0
"""The Python line of a stall is right, for every installed version and for workers of all kinds."""
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

from conftest import APPS  # noqa: F401
from stallkit import events, most

DEBIAN = "/usr/bin/python3"
GIVE_BACK = "dirty_decay_ms:0,muzzy_decay_ms:0"


def interpreters():
    """Returns one interpreter of each minor version, installed or built by pyenv."""
    found = {}
    for path in [DEBIAN, *(shutil.which(f"python3.{n}") for n in range(9, 16)),
                 *sorted(map(str, pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3")))]:
        if not path or "/shims/" in path:
            continue
        done = subprocess.run([path, "-c", "import sys; print('3.%d' % sys.version_info[1])"],
                              capture_output=True, text=True, check=False)
        version = done.stdout.strip()
        if done.returncode == 0 and int(version.split(".")[1]) >= 9:
            found.setdefault(version, path)
    return found


PYTHONS = interpreters()

STALLER = """
    import ctypes, os, sys, time
    libc = ctypes.PyDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]

    def long_enough():
        "How much it takes on this machine."
        for mib in (64, 128, 256, 512):
            block = libc.malloc(mib << 20)
            ctypes.memset(block, 1, mib << 20)
            start = time.thread_time()
            libc.free(block)
            if time.thread_time() - start > 0.0075:
                break
        return mib

    MIB = long_enough()

    def stall():
        block = libc.malloc(MIB << 20)
        ctypes.memset(block, 1, MIB << 20)
        expect = (

            libc.free(block),
            sys._getframe().f_lineno)[1] - 1
        return expect
"""


def function_of(event):
    return event["python"][0]["function"] if "python" in event else None


@pytest.fixture
def python(run, tmp_path):
    """python(script, interpreter) -> (stdout, stall events that have Python frames)."""
    def call(script, interpreter=DEBIAN, **env):
        folder = tmp_path / "päth"
        folder.mkdir(exist_ok=True)
        program = folder / "program.py"
        program.write_text(textwrap.dedent(STALLER) + textwrap.dedent(script), encoding="utf-8")
        # The interpreter's own small frees must not become stalls on a busy machine. Huge pages are
        # off, because freeing them is too quick for a stall.
        settings = dict(GPUFEED_LOG=tmp_path / "log", MALLOC_CONF=GIVE_BACK, PYTHONUTF8=1,
                        GPUFEED_STALL_US=2500, GPUFEED_PROFILE="inference",
                        PYTHONDONTWRITEBYTECODE=1)
        settings.update(env)
        found = run(interpreter, program, **settings)
        assert found.returncode == 0, found.stderr
        return found.stdout, [e for e in events(tmp_path / "log") if e["call"] == "free" and
                              function_of(e) != "long_enough"]
    return call


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_line(python, version, tmp_path):
    if int(version.split(".")[1]) > 15:
        pytest.skip("no row for this version")
    out, found = python("""
        def outer(n):
            for i in range(n):
                line = stall()

                print(line)
        class Class:
            def method(self):
                for _ in (outer(1) for i in range(4)):
                    pass
        outer(4)
        Class().method()
        import threading
        thread = threading.Thread(target=outer, args=(3,))
        thread.start()
        thread.join()
        print(os.getpid())
    """, PYTHONS[version])
    *lines, _ = out.split()
    # The interpreter frees memory too, and a busy machine may preempt it during a free.
    frames = [event["python"] for event in found if function_of(event) == "stall"]
    assert most(frames, lines), found
    for frame in frames:
        assert frame[0]["line"] == int(lines[0])
        assert frame[0]["file"] == str(tmp_path / "päth" / "program.py")
        assert frame[1]["function"].endswith("outer")
    assert any("genexpr" in f["function"] for frame in frames for f in frame)
    assert any(f["function"] in ("Class.method", "method") for frame in frames for f in frame)


SUBINTERPRETER = """
    def enter():
        text = open(__file__, encoding="utf-8").read()
        text = text[:text.index("def enter")] + '\\n'.join((
            "def within():", "    for i in range(6):", "        stall()", "within()"))
        subinterpreters.run_string(subinterpreters.create(), text)

    import _xxsubinterpreters as subinterpreters
    enter()
"""


@pytest.mark.parametrize("version", sorted(set(PYTHONS) & {"3.9", "3.10", "3.11"}))
def test_a_subinterpreter(python, version):
    _, found = python(SUBINTERPRETER, PYTHONS[version])
    frames = [[frame["function"] for frame in event["python"]] for event in found if "python" in event]
    assert sum(names[:2] == ["stall", "within"] for names in frames) >= 4, frames


WORKERS = {
    "fork": """
        multiprocessing.set_start_method("fork")
    """,
    "spawn": """
        multiprocessing.set_start_method("spawn")
    """,
    "forkserver": """
        multiprocessing.set_start_method("forkserver")
    """,
}


@pytest.mark.parametrize("method", sorted(WORKERS))
@pytest.mark.parametrize("when", ["before", "after"])
def test_worker(python, method, when):
    """The worker calls _exit directly after its stall."""
    out, found = python(f"""
        import multiprocessing
        def work():
            print(stall(), flush=True)
            os._exit(0)
        if __name__ == "__main__":
            if "{when}" == "after":
                assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
            multiprocessing.set_start_method("{method}")
            worker = multiprocessing.Process(target=work)
            worker.start()
            print("pid", worker.pid, flush=True)
            if "{when}" == "before":
                assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
            worker.join()
            time.sleep(0.15)
    """, LD_LIBRARY_PATH=pathlib.Path(os.environ["GF_BUILD"]) / "tests" / "sim"
       if "GF_BUILD" in os.environ else "")
    words = out.split()
    pid = int(words[words.index("pid") + 1])
    line = int(next(word for i, word in enumerate(words)
                    if word != "pid" and (i == 0 or words[i - 1] != "pid")))
    mine = [event for event in found if event["pid"] == pid]
    assert mine, found
    assert [e for e in mine if "python" in e and e["python"][0]["line"] == line]


def test_stack_has_the_caller(python):
    _, found = python("stall()")
    event = max(found, key=lambda event: event["parts_us"].get("unmap", 0))
    paths = [module["path"] for module in event["modules"]]
    assert any("libffi" in path for path in paths) and any("python" in path for path in paths)
    assert all(len(module["build_id"]) in (0, 40) for module in event["modules"])
    assert len(event["stack"]) > 8
    first = event["modules"][int(event["stack"][0].split("+")[0])]
    assert "libffi" in first["path"]
