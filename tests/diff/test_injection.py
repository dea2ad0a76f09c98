# SPDX-License-Identifier: Apache-2.0
"""Faults in every call that staging and pinning make themselves: the program's results are the same,
and what was turned off is said in one line."""

import ctypes
import re

import pytest
from conftest import APPS, SOURCE

# The program calls these itself: a fault meets its own calls, too. They have tests of their own below.
THE_PROGRAMS = {"cuMemHostAlloc", "cuMemFreeHost", "cuMemHostUnregister", "cuMemcpyHtoD_v2",
                "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"}
REGISTER, RETAIN = "cuMemHostRegister_v2", "cuDevicePrimaryCtxRetain"
STAGED = {"GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": 65536}
OFF = re.compile(r"gpufeed: .*(left to the driver|stays at)")

REFUSALS = ["populate-read", "populate-read-fault", "populate-write", "populate-write-memory",
            "dontfork", "hugepage", "madvise", "shared-map", "reserve-map", "large-map",
            "large-unmap", "mbind", "move-pages", "affinity", "policy", "name", "threads", "scheduling",
            "question", "read", "mincore", "dontneed", "mremap", "munlock", "statfs", "limits"]
# What src/transfer calls of the system, and what refuses it: files cannot be opened in test_limits, memory not
# be had there and in tests/unit.
CALLED = {"madvise": "madvise", "mmap": "large-map", "munmap": "large-unmap", "mremap": "mremap", "mincore": "mincore",
          "ioctl": "question", "prctl": "name", "statfs": "statfs", "getrlimit": "limits", "pthread_create": "threads",
          "move_pages": "move-pages", "munlock": "munlock", "read": "read", "sched_setaffinity": "affinity"}
LIMITED = {"openat", "calloc", "aligned_alloc"}
# These cannot fail, or not so that anything could be done about it.
CERTAIN = {"free", "sysconf", "syscall", "close", "futex", "clock_nanosleep", "strerrordesc_np", "sigemptyset",
           "sigfillset", "pthread_sigmask"}
# How many lines say what each turns off. A helper's stack is such a mapping, or one that was kept.
SAID = {"populate-write": [1], "populate-write-memory": [1], "threads": [1], "dontfork": [1],
        "madvise": [2], "shared-map": [1], "reserve-map": [1, 2], "large-map": [2]}


def entries():
    """All that src/transfer calls, by its own text."""
    text = "".join(path.read_text() for path in (SOURCE / "src" / "transfer").glob("*.c"))
    called = set(re.findall(r"\b(?:cuda|c|cuda\(\))->(cu[A-Z]\w+)", text))
    assert len(called) > 30 and THE_PROGRAMS | {REGISTER} < called
    return sorted(called - THE_PROGRAMS)


def test_all_calls_of_the_system_are_known():
    text = "".join(path.read_text() for path in (SOURCE / "src" / "transfer").glob("*.[ch]"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    libc = ctypes.CDLL(None)
    called = {name for name in re.findall(r"\b([a-z_0-9]+)\(", text) if hasattr(libc, name)}
    called |= set(re.findall(r"\bSYS_(\w+)", text))
    called = {name for name in called if not re.match(r"gf_|mem|str(?!err)|pthread_(?:attr|mutex)_|send$", name)}
    assert called == set(CALLED) | LIMITED | CERTAIN
    assert set(CALLED.values()) < set(REFUSALS)


def always(entry):
    return "2+" if entry == RETAIN else "1+" # the program's own is the first


@pytest.fixture(scope="module")
def expected():
    return {}


def native(run, expected, *arguments, **environment):
    if arguments not in expected:
        expected[arguments] = run(APPS / "steps", *arguments, sim=True, preload=False).stdout
    return expected[arguments]


# One line for copies, one for large pinned memory. Where others fail a copy is the driver's, and counted.
TURNED_OFF = {"cuEventCreate": 1, "cuEventQuery": 1, "cuEventRecord": 1, "cuEventSynchronize": 1, REGISTER: 2}


def lines_about(done):
    return [line for line in done.stderr.splitlines() if OFF.match(line)]


@pytest.mark.parametrize("entry", entries())
def test_calls_of_the_driver(run, expected, entry):
    for plan in ("2:999", f"{always(entry)}:2"):
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:{plan}", **STAGED)
        assert (done.returncode, done.stdout) == (0, native(run, expected)), (plan, done.stderr)
        expected_lines = TURNED_OFF.get(entry, 0)
        assert len(lines_about(done)) in ({expected_lines} if "+" in plan else range(expected_lines + 1)), done.stderr
        assert all(entry[:13] in line for line in lines_about(done)), done.stderr


@pytest.mark.parametrize("entry", sorted(set(entries()) - {REGISTER}))
def test_calls_of_the_driver_before_registering(run, expected, entry):
    done = run(APPS / "steps", "registering", sim=True, SIM_FAULT=f"{entry}:{always(entry)}:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected, "registering")), done.stderr
    assert not lines_about(done), done.stderr


def test_an_event_that_fails_anywhere(run, expected):
    """Behind any of a copy's transfers, the last one too: the copy returns when the data is there."""
    for n in range(1, 64):
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"cuEventRecord:{n}:999", SIM_DELAY="dma:1000", **STAGED)
        assert (done.returncode, done.stdout) == (0, native(run, expected)), (n, done.stderr)
        assert len(lines_about(done)) == 1, (n, done.stderr)


def test_what_was_sent_before_an_event_failed_arrives(run):
    """The driver's call for a small rest is back before that, where the one for the whole would not have been."""
    asking = {"STEPS_ASK": 1, "SIM_DELAY": "dma:5000"}
    native = run(APPS / "steps", sim=True, preload=False, **asking).stdout
    assert native.count("arrived -> 0 ") == 6
    for n in range(36, 46):
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"cuEventRecord:{n}:999", **asking, **STAGED)
        assert (done.returncode, done.stdout) == (0, native), (n, done.stderr)


def test_an_anchor_that_is_refused(run, expected):
    """The first small allocation is the library's own; the program's is the next."""
    done = run(APPS / "steps", sim=True, SIM_FAULT="cuMemHostAlloc:1:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr


def test_a_buffer_that_cannot_be_unregistered(run, expected):
    """That is a call of ours, and the program's free is told nothing of it."""
    done = run(APPS / "steps", sim=True, SIM_FAULT="cuMemHostUnregister:1+:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr
    assert len(lines_about(done)) == 1 and "cuMemHostUnregister failed (999)" in done.stderr


@pytest.mark.parametrize("entry", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"])
def test_a_transfer_that_is_refused_at_once(run, expected, entry):
    """Nothing stands on the stream: the driver does the whole copy."""
    done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:1:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr


# There the bytes that have not arrived differ too; here nothing is written before the ring has been round.
@pytest.mark.parametrize("entry, at, call, more", [("cuMemcpyHtoDAsync_v2", 3, "h2d", 1),
                                                   ("cuMemcpyDtoHAsync_v2", 18, "d2h", 0)])
def test_a_transfer_that_is_refused_in_the_middle(run, expected, entry, at, call, more):
    """A part is under way: that copy answers what the driver said, and no other."""
    done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:{at}:999", **STAGED)
    plain = native(run, expected).splitlines()
    wrong = [line for line, right in zip(done.stdout.splitlines(), plain) if line != right]
    assert done.returncode == 0 and wrong[0].startswith(f"{call} -> 999") and len(wrong) == 1 + more, wrong


@pytest.mark.parametrize("refusal", REFUSALS)
def test_calls_of_the_system(run, expected, refusal):
    done = run(APPS / "steps", refusal, sim=True, **STAGED)
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (done.returncode, done.stdout) == (0, native(run, expected, refusal)), done.stderr
    assert len(lines_about(done)) in SAID.get(refusal, [0]), done.stderr


@pytest.mark.parametrize("refusal", sorted(set(REFUSALS) - {"large-map"}))
def test_calls_of_the_system_before_registering(run, expected, refusal):
    done = run(APPS / "steps", "registering", refusal, sim=True, **STAGED)
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (done.returncode, done.stdout) == (0, native(run, expected, "registering", refusal)), done.stderr
    assert len(lines_about(done)) == (refusal == "threads"), done.stderr


# Where munmap is refused and mremap is not, what is moved aside is unmapped for the program all the same.
@pytest.mark.parametrize("refusal", sorted(set(REFUSALS) - {"large-unmap"}))
def test_calls_of_the_system_beside_shared_memory(run, expected, refusal):
    done = run(APPS / "steps", "sharing", refusal, sim=True, **STAGED)
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (done.returncode, done.stdout) == (0, native(run, expected, "sharing", refusal)), done.stderr
    assert len(lines_about(done)) <= 1, done.stderr
