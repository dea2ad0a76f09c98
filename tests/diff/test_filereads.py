# SPDX-License-Identifier: Apache-2.0
"""Reads of files by libraries like safetensors and CPython: several threads share them, and the program sees no
difference.

`replaced`: another thread replaces the descriptor by another file and back at once, so that no comparison of the
descriptor before and after a piece notices it. Relatives: a thread with a descriptor table of its own (`unshared`), a
descriptor that is closed meanwhile, an offset that others move (`shared-offset`), a child within a read
(`forking-handler`), locks that a close would drop (`locked`)."""

import importlib.util
import json
import tempfile

import pytest
from conftest import APPS, Runner

LIBRARIES = (APPS / "_safetensors_rust.abi3.so", APPS / "libpython_test.so")
HELPED = {"GPUFEED_STAGE_THREADS": 4, "KIT_ALARM": 150}
CASES = ["errors", "offsets", "unshared", "forked", "signals", "forking-handler", "descriptor", "shared-offset", "replaced",
         "closed", "locked", "moved", "mirrored", "cancelled", "copying-handler", "hurried"]
MORE = {"mirrored": {"GPUFEED_STAGE_THREADS": 12}, "copying-handler": {"GPUFEED_STAGE_MIN": 65536}}
COUNTED = {"offsets", "descriptor", "unshared"}  # tests look at the report of these runs


def counts(run, tmp_path, what="offsets", **environment):
    report = tmp_path / "report.json"
    done = run(APPS / "filereads", what, tmp_path, *LIBRARIES, sim=True, GPUFEED_REPORT=report,
               **{**HELPED, **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text())["transfers"]["parallel_read"]


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """counted(what) -> the counts of a case's only run with the library, whose output is the same as natively."""
    made = {}

    def get(what):
        if what not in made:
            folder = tmp_path_factory.mktemp(what)
            report = {"GPUFEED_REPORT": folder / "report.json"} if what in COUNTED else {}
            with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:  # only there, reads of many threads end out of order
                plain, ours = Runner().both(APPS / "filereads", what, memory if what == "mirrored" else folder, *LIBRARIES,
                                            sim=True, **report, **{**HELPED, **MORE.get(what, {})})
            assert plain.returncode == 0, (plain.stdout, plain.stderr)
            assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr
            made[what] = json.loads((folder / "report.json").read_text())["transfers"]["parallel_read"] if report else None
        return made[what]
    return get


@pytest.mark.parametrize("what", CASES)
def test_as_natively(counted, what):
    counted(what)


@pytest.mark.parametrize("what", ["offsets", "descriptor"])
def test_several_threads_share_the_reads(counted, what):
    """safetensors' pread64 is found at the first search, CPython's read after its first call."""
    counts_of_run = counted(what)
    assert counts_of_run["libraries"] == 2 and counts_of_run["calls"] >= 10, counts_of_run
    assert counts_of_run["bytes"] >= 100 << 20, counts_of_run


@pytest.mark.parametrize("environment", [{"GPUFEED_PARALLEL_READ": "off"}, {"GPUFEED": "observe"}],
                         ids=["off", "observe"])
def test_option_off(run, tmp_path, environment):
    assert counts(run, tmp_path, KIT_TURNS=10, **environment) == {"libraries": 0, "calls": 0, "bytes": 0}


def test_descriptors_of_another_thread_are_not_read(counted):
    """The helpers find another file at the number, so the caller reads all pieces itself, or the rest natively."""
    assert counted("unshared")["libraries"] == 2


PYTHON = "/usr/bin/python3"

# Runs a command with a filter that refuses pidfd_getfd, as Docker's default profile does.
REFUSING = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
code = b"".join(struct.pack("HBBI", *step) for step in
                ((0x20, 0, 0, 0), (0x15, 0, 1, 438), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)))
buffer = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_native_reads_where_files_cannot_be_taken(run, tmp_path):
    report = tmp_path / "report.json"
    plain, ours = run.both(PYTHON, "-c", REFUSING, APPS / "filereads", "offsets", tmp_path, *LIBRARIES, sim=True,
                           GPUFEED_REPORT=report, KIT_TURNS=10, **HELPED)
    assert plain.returncode == 0, (plain.stdout, plain.stderr)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr
    assert json.loads(report.read_text())["transfers"]["parallel_read"]["bytes"] == 0


PROGRAM = """
import ctypes, hashlib, pathlib, sys, time
{imports}
cuda = ctypes.CDLL("libcuda.so.1")
folder, context, device = pathlib.Path(sys.argv[1]), ctypes.c_void_p(), ctypes.c_uint64()
if "save" in sys.argv:
    {save}
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context) and not cuda.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(8 << 20))
host = (ctypes.c_char * (8 << 20))()
for turn in range(5):
    assert not cuda.cuMemcpyHtoD_v2(device, host, ctypes.c_size_t(8 << 20))
    time.sleep(0.2)
    for path in sorted(folder.glob("weights*")):
        print(path.name, [hashlib.md5(part).hexdigest() for part in {load}])
"""
# Each case's imports, the statement that writes a file, and the expression that reads the file.
PACKAGES = {
    "python": ("", "(folder / 'weights').write_bytes(bytes(range(251)) * 60000)",
               "(path.read_bytes(), *map(open(path, 'rb', buffering=0).read, (5 << 20, 1 << 26, 9)))"),
    "torch": ("import torch",
              "torch.save({'a': torch.arange(3 << 20), 'b': torch.arange(1000001)}, folder / 'weights.pt')",
              "(t.numpy() for t in torch.load(path, map_location='cpu').values())"),
}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages(run, tmp_path, package):
    """Files that Python itself and torch.load read, with the packages' own libraries."""
    if package != "python" and not importlib.util.find_spec(package):
        pytest.skip(f"{PYTHON} has no {package}")
    imports, save, load = PACKAGES[package]
    report = tmp_path / "report.json"
    program = PROGRAM.format(imports=imports, save=save, load=load)
    plain = run(PYTHON, "-c", program, tmp_path, "save", sim=True, preload=False, timeout=200)
    ours = run(PYTHON, "-c", program, tmp_path, sim=True, timeout=200, GPUFEED_REPORT=report, **HELPED)
    assert plain.returncode == 0, plain.stderr
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr
    counted = json.loads(report.read_text())["transfers"]["parallel_read"]
    assert counted["libraries"] >= 1 and counted["bytes"] >= 3 * (20 << 20), counted
