# SPDX-License-Identifier: Apache-2.0
"""Features that are off by default, because they need a privilege or change the whole host."""

import os
import pathlib
import re
import struct
import subprocess
import sys
import time

import pytest

from conftest import COMMAND, PRELOAD, SIM_DIR

DEVICE = pathlib.Path("/dev/cpu_dma_latency")
# A program that uses the driver, prints whether it has a descriptor of the device, and ends when its standard input
# ends.
JOB = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0), flush=True)
sys.stdin.readline()
links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
print(any(os.readlink(link).endswith("latency") for link in links if os.path.exists(link)), flush=True)
"""
needs_device = pytest.mark.skipif(not os.access(DEVICE, os.W_OK), reason="/dev/cpu_dma_latency cannot be written here")


def start(run, *before, **env):
    job = subprocess.Popen([*before, sys.executable, "-c", JOB], env=run.env(preload=not before, sim=True, **env), text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return job


def longest():
    return struct.unpack("i", DEVICE.read_bytes()[:4])[0]


def reaches(value, seconds=20):
    """Returns whether the device gets this value within some seconds."""
    end = time.monotonic() + seconds
    while longest() != value and time.monotonic() < end:
        time.sleep(0.02)
    return longest() == value


@needs_device
def test_idle_states_are_limited_while_the_process_uses_the_gpu(run):
    before = longest()
    if before <= 10:
        pytest.skip("another process limits the idle states")
    with start(run, GPUFEED_IDLE_STATES="shallow") as job:
        assert job.stdout.readline() == "0 0\n"
        assert reaches(10)
        assert job.communicate("\n", timeout=60) == ("False\n", "") and job.returncode == 0
    assert reaches(before)


@needs_device
@pytest.mark.parametrize("env", [{}, {"GPUFEED_IDLE_STATES": "shallow", "GPUFEED": "observe"}])
def test_idle_states_stay_without_the_request(run, env):
    before = longest()
    with start(run, GPUFEED_LIVE="on", **env) as job:
        assert job.stdout.readline() == "0 0\n"
        assert not reaches(10, 1.5) or before == 10
        job.communicate("\n", timeout=60)


def test_idle_states_without_the_right_are_one_line(run):
    if os.geteuid():
        pytest.skip("needs root to become another user")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    readable = subprocess.run([*nobody, "test", "-r", PRELOAD], check=False).returncode == 0
    if not readable or not DEVICE.exists():
        pytest.skip("nobody may not read the library here, or there is no device")
    env = {"GPUFEED_IDLE_STATES": "shallow", "LD_PRELOAD": PRELOAD}
    with start(run, *nobody, **env) as job:
        assert job.stdout.readline() == "0 0\n"
        line = job.stderr.readline()
        assert line == "gpufeed: GPUFEED_IDLE_STATES=shallow has no effect: /dev/cpu_dma_latency: Permission denied\n"
        assert job.communicate("\n", timeout=60) == ("False\n", "") and job.returncode == 0


# A program that copies 8 MiB until the scheduling policy and the nice value of all helper threads are those of its
# argument, but at least 6 times and for at most 20 seconds. Prints both, and whether the copied bytes are right.
COPIES = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
size, context, at = 8 << 20, ctypes.c_void_p(), ctypes.c_uint64()
data = bytes(range(256)) * (size // 256)
back = ctypes.create_string_buffer(size)
done = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
        cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size))]

def helpers():
    found = set()
    for tid in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{tid}/stat") as file:
                name, fields = file.read().rsplit(") ", 1)
        except OSError: # the thread has ended
            continue
        if "gpufeed-copy" in name:
            found.add((os.sched_getscheduler(int(tid)), int(fields.split()[16])))
    return str(sorted(found))

end, count = time.monotonic() + 20, 0
while count < 6 or helpers() != sys.argv[1] and time.monotonic() < end:
    done += [cuda.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(size)), cuda.cuMemcpyDtoH_v2(back, at, ctypes.c_size_t(size))]
    count += 1
print(helpers(), not any(done), back.raw == data)
"""


@pytest.mark.parametrize("requested, found", {
    None: (os.SCHED_OTHER, 0), "normal": (os.SCHED_OTHER, 0), "high": (os.SCHED_OTHER, -10),
    "realtime": (os.SCHED_RR, 0)}.items())
def test_priority_of_helpers(run, requested, found):
    if os.geteuid():
        pytest.skip("needs the right to raise a priority")
    env = {"GPUFEED_HELPER_PRIORITY": requested} if requested else {}
    done = run(sys.executable, "-c", COPIES, f"[{found}]", sim=True, GPUFEED_STAGE_THREADS=4, **env)
    if requested and "has no effect" in done.stderr:
        pytest.skip("the kernel refuses priorities here")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"[{found}] True True\n", "")


@pytest.mark.parametrize("policy", ["SCHED_BATCH", "SCHED_IDLE"])
def test_helpers_of_a_job_in_the_background(run, policy):
    """Helpers must not take CPU time from ordinary processes if the job itself does not."""
    start = f"import os\nos.sched_setscheduler(0, os.{policy}, os.sched_param(0))\n"
    found = f"[({getattr(os, policy)}, 0)]"
    done = run(sys.executable, "-c", start + COPIES, found, sim=True, GPUFEED_STAGE_THREADS=4)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{found} True True\n", "")


@pytest.mark.parametrize("requested", ["high", "realtime"])
def test_priority_without_the_right_is_one_line(run, requested):
    if os.geteuid():
        pytest.skip("needs root to become another user")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"LD_PRELOAD={PRELOAD}"]
    if subprocess.run([*nobody[:4], "test", "-r", PRELOAD], check=False).returncode:
        pytest.skip("nobody may not read the library here")
    ordinary = f"[({os.SCHED_OTHER}, 0)]"
    done = run(*nobody, sys.executable, "-c", COPIES, ordinary, preload=False, sim=True, GPUFEED_STAGE_THREADS=4,
               GPUFEED_HELPER_PRIORITY=requested)
    reason = "Permission denied" if requested == "high" else "Operation not permitted"
    assert (done.returncode, done.stdout) == (0, f"{ordinary} True True\n")
    assert done.stderr == f"gpufeed: GPUFEED_HELPER_PRIORITY={requested} has no effect: {reason}\n"


# A program that copies, and allocates 64 MiB of pinned memory. Prints the results, whether the bytes that a child
# writes to that memory arrive, and how many KiB of reserved huge pages it has.
PINNED = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
size, context, at, pinned = 16 << 20, ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
data = bytes(range(256)) * (size // 256)
back = ctypes.create_string_buffer(size)
done = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
        cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)),
        cuda.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(4 * size), 0)]
for _ in range(6):
    done += [cuda.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(size)), cuda.cuMemcpyDtoH_v2(back, at, ctypes.c_size_t(size))]
child = os.fork()
if not child:
    ctypes.memset(pinned.value, 7, 4 * size)
    os._exit(0)
os.waitpid(child, 0)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(any(done), back.raw == data, ctypes.string_at(pinned.value, 4 * size) == bytes([7]) * (4 * size),
      status.get("HugetlbPages", "0").split()[0], cuda.cuMemFreeHost(pinned))
"""
TOO_FEW = re.compile(r"gpufeed: \d+ MiB of pinned memory get ordinary pages, because mmap\(MAP_HUGETLB\) failed: .*\n")


def test_reserved_huge_pages_or_one_line(run):
    """Most machines reserve no huge page. `tests/vm` reserves some."""
    done = run(sys.executable, "-c", PINNED, sim=True, GPUFEED_STAGE_THREADS=4, GPUFEED_PIN_PAGES="huge")
    failed, copied, shared, kib, freed = done.stdout.split()
    assert (failed, copied, shared, freed) == ("False", "True", "True", "0"), done.stderr
    assert TOO_FEW.fullmatch(done.stderr) or not done.stderr and int(kib) > 0, (done.stderr, kib)


def test_no_reserved_huge_page_without_the_request(run):
    done = run(sys.executable, "-c", PINNED, sim=True, GPUFEED_STAGE_THREADS=4)
    assert (done.stdout, done.stderr) == ("False True True 0 0\n", "")


def disabled(run, *flags, **env):
    told = run(COMMAND, "run", "--verbose=0", *flags, "--", "sh", "-c", "cat /proc/self/status", preload=False,
               LD_LIBRARY_PATH=SIM_DIR, **env)
    assert told.returncode == 0 and told.stderr == ""
    return dict(line.split(":\t", 1) for line in told.stdout.splitlines())["THP_enabled"]


def test_huge_pages_are_off_for_the_program_and_its_children(run):
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    if "THP_enabled:\t1" not in status:
        pytest.skip("this process may have no huge pages, or the kernel does not say")
    assert disabled(run) == "1" and disabled(run, GPUFEED_HUGE_PAGES="keep") == "1"
    assert disabled(run, "--huge-pages=off") == disabled(run, GPUFEED_HUGE_PAGES="off") == "0"
    assert "THP_enabled:\t1" in pathlib.Path("/proc/self/status").read_text(encoding="ascii")


TCMALLOC = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"
# Prints the limit that tcmalloc itself reports.
CACHES = """
import ctypes
found = ctypes.c_size_t()
read = ctypes.CDLL(None).MallocExtension_GetNumericProperty
print(read(b"tcmalloc.max_total_thread_cache_bytes", ctypes.byref(found)), found.value)
"""


@pytest.mark.parametrize("flags, env, found", [
    ([], {}, 32 << 20), (["--tcmalloc=keep"], {}, 32 << 20), (["--tcmalloc=tune"], {}, 256 << 20),
    (["--tcmalloc=tune"], {TCMALLOC: str(64 << 20)}, 64 << 20)])
def test_caches_of_tcmalloc(run, flags, env, found):
    if subprocess.run(["/bin/true"], env={"LD_PRELOAD": "libtcmalloc_minimal.so.4"}, check=True, capture_output=True).stderr:
        pytest.skip("libtcmalloc-minimal4 is not installed")
    done = run(COMMAND, "run", "--verbose=0", *flags, "--", sys.executable, "-c", CACHES, preload=False,
               LD_PRELOAD="libtcmalloc_minimal.so.4", LD_LIBRARY_PATH=SIM_DIR, **env)
    assert (done.stdout, done.stderr) == (f"1 {found}\n", "")
