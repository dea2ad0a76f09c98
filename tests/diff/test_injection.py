# SPDX-License-Identifier: Apache-2.0
"""Injects a fault into every call that staging and pinning make themselves. The program's results stay the same, and
one line says which feature is off. test_refusals refuses the calls of the system."""

import concurrent.futures
import ctypes
import re

import pytest
from conftest import APPS, SOURCE, Runner, rounds

# The program calls these itself, so a fault would also hit its own calls. The tests below cover
# them.
PROGRAM_CALLS = {"cuMemHostAlloc", "cuMemFreeHost", "cuMemHostUnregister", "cuMemcpyHtoD_v2",
                "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"}
REGISTER, RETAIN = "cuMemHostRegister_v2", "cuDevicePrimaryCtxRetain"
STAGED = {"GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": 65536, "GPUFEED_READAHEAD": "on",
          "GPUFEED_HELPER_PRIORITY": "high"}
OFF = re.compile(r"gpufeed: .*(left to the driver|stays at)")

REFUSALS = ["populate-read", "populate-read-fault", "populate-write", "populate-write-memory",
            "dontfork", "hugepage", "madvise", "shared-map", "reserve-map", "large-map",
            "large-unmap", "mbind", "move-pages", "affinity", "policy", "name", "threads", "scheduling", "priority",
            "question", "read", "read-own", "write-own", "mincore", "dontneed", "mremap", "munlock", "statfs",
            "limits", "duplicate", "willneed", "io-priority", "set-io-priority"]
# The system functions that src/engine/transfer calls, and the refusal that makes each fail.
CALLED = {"madvise": "madvise", "mmap": "large-map", "munmap": "large-unmap", "mincore": "mincore",
          "ioctl": "question", "prctl": "name", "pthread_create": "threads",
          "move_pages": "move-pages", "process_vm_readv": "read-own", "process_vm_writev": "write-own",
          "mremap": "mremap", "munlock": "munlock", "statfs": "statfs",
          "ioprio_get": "io-priority", "ioprio_set": "set-io-priority", "setpriority": "priority",
          "sched_setscheduler": "scheduling"}
# test_copy_limits, test_loads and tests/unit make these fail, or the CPU, which may have no protection keys.
LIMITED = {"calloc", "aligned_alloc", "pthread_key_create", "mprotect", "pkey_mprotect"}
# These cannot fail, or the library could not handle a failure. stat fails without /dev/shm, which then has no files.
CANNOT_FAIL = {"free", "sysconf", "syscall", "futex", "clock_nanosleep", "strerrordesc_np",
           "sigfillset", "pthread_sigmask", "getpid", "gettid", "rt_sigaction", "sched_getscheduler",
           "getpriority", "uname", "pthread_once", "pthread_setspecific", "pthread_setcancelstate",
               "dl_iterate_phdr", "close", "stat"}
# If one of these fails, libc makes the read of a file. test_filereads and test_badblocks make the reads fail, and lseek and
# fstat, with pipes and closed descriptors. No descriptor of a regular file lets the others fail.
READS = {"read", "pread", "lseek", "fstat", "fstatfs", "fcntl", "pthread_testcancel"}
# The number of lines that each refusal causes: one for each feature that it turns off. Two numbers are listed if a
# helper's stack may need a new mapping.
LINES = {"populate-write": [1], "populate-write-memory": [1], "threads": [1], "dontfork": [1],
        "madvise": [2], "shared-map": [1], "reserve-map": [1, 2], "large-map": [2]}


def entries():
    """The driver functions that src/engine/transfer calls, from its source text."""
    text = "".join(path.read_text() for path in (SOURCE / "src" / "engine" / "transfer").rglob("*.c"))
    called = set(re.findall(r"\b(?:cuda|c|cuda\(\))->(cu[A-Z]\w+)", text))
    assert len(called) > 30 and PROGRAM_CALLS | {REGISTER} < called
    return sorted(called - PROGRAM_CALLS)


def test_all_calls_of_the_system_are_known():
    text = "".join(path.read_text() for path in (SOURCE / "src" / "engine" / "transfer").rglob("*.[ch]"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    libc = ctypes.CDLL(None)
    called = {name for name in re.findall(r"\b([a-z_0-9]+)\(", text) if hasattr(libc, name)}
    called |= set(re.findall(r"\bSYS_(\w+)", text))
    called = {name for name in called if not re.match(r"gf_|mem|str(?!err)|pthread_(?:attr|mutex)_|send$", name)}
    assert called == set(CALLED) | LIMITED | CANNOT_FAIL | READS
    assert set(CALLED.values()) < set(REFUSALS)


def always(entry):
    return "2+" if entry == RETAIN else "1+"  # the first call is the program's own


@pytest.fixture(scope="module")
def expected():
    return {}


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """called(*arguments) -> the driver functions that the library calls in this run; a fault in others would show nothing."""
    known = {}

    def names(*arguments):
        if arguments not in known:
            path = tmp_path_factory.mktemp("called") / "names"
            Runner()(APPS / "steps", *arguments, sim=True, SIM_CALLED=path, SIM_FAULT=",".join(f"{entry}:1:0" for entry in entries()), **STAGED)
            known[arguments] = set(path.read_text().split())
        return known[arguments]
    return names


def native(run, expected, *arguments, **environment):
    if arguments not in expected:
        expected[arguments] = run(APPS / "steps", *arguments, sim=True, preload=False).stdout
    return expected[arguments]


# The number of lines if this call fails: one for copies, and one for large pinned memory. If a call that is not
# listed fails, the driver makes that copy, and no line is printed.
TURNED_OFF = {"cuStreamCreateWithPriority": 1, "cuEventCreate": 1, "cuEventQuery": 1, "cuEventRecord": 1, "cuEventSynchronize": 1,
              "cuStreamQuery": 1, REGISTER: 2}


def lines_about(done):
    return [line for line in done.stderr.splitlines() if OFF.match(line)]


@pytest.mark.parametrize("entry", entries())
def test_calls_of_the_driver(run, expected, called, entry):
    for plan in ("2:999", f"{always(entry)}:2") if entry in called() else ():
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:{plan}", **STAGED)
        assert (done.returncode, done.stdout) == (0, native(run, expected)), (plan, done.stderr)
        expected_lines = TURNED_OFF.get(entry, 0)
        assert len(lines_about(done)) in ({expected_lines} if "+" in plan else range(expected_lines + 1)), done.stderr
        assert all(entry[:13] in line for line in lines_about(done)), done.stderr


@pytest.mark.parametrize("entry", sorted(set(entries()) - {REGISTER}))
def test_calls_of_the_driver_before_registering(run, expected, called, entry):
    if entry not in called("registering"):
        return
    done = run(APPS / "steps", "registering", sim=True, SIM_FAULT=f"{entry}:{always(entry)}:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected, "registering")), done.stderr
    assert not lines_about(done), done.stderr


def test_an_event_that_fails_anywhere(run, expected):
    """The event after any DMA of a copy may fail, including the last one. The copy still returns only when the data
    has arrived. The first copy in each direction has about 16 of them."""
    natively = native(run, expected)

    def check(n):
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"cuEventRecord:{n}:999", SIM_DELAY="dma:1000", **STAGED)
        assert (done.returncode, done.stdout) == (0, natively), (n, done.stderr)
        assert len(lines_about(done)) == 1, (n, done.stderr)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # the runs sleep most of the time
        list(pool.map(check, range(1, 37, rounds(1, 3))))


def test_what_was_sent_before_an_event_failed_arrives(run):
    """After a failed event, the driver copies the rest. Its call for a small rest may return before the DMA ends, so
    the library must wait."""
    asking = {"STEPS_ASK": 1, "SIM_DELAY": "dma:5000"}
    native = run(APPS / "steps", sim=True, preload=False, **asking).stdout
    assert native.count("arrived -> 0 ") == 3
    for n in range(36, 46, rounds(1, 2)):
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"cuEventRecord:{n}:999", **asking, **STAGED)
        assert (done.returncode, done.stdout) == (0, native), (n, done.stderr)


def test_a_keepalive_block_that_is_refused(run, expected):
    """The first call of cuMemHostAlloc is the library's keepalive block, and it fails. The next call is the
    program's."""
    done = run(APPS / "steps", sim=True, SIM_FAULT="cuMemHostAlloc:1:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr


def test_a_buffer_that_cannot_be_unregistered(run, expected):
    """The library unregisters the memory; the program's free succeeds all the same."""
    done = run(APPS / "steps", sim=True, SIM_FAULT="cuMemHostUnregister:1+:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr
    assert len(lines_about(done)) == 1 and "cuMemHostUnregister failed (999)" in done.stderr


@pytest.mark.parametrize("entry", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"])
def test_a_transfer_that_is_refused_at_once(run, expected, entry):
    """No DMA was issued, so the driver makes the whole copy."""
    done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:1:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr


# To the device, the missing bytes are a second wrong line. From the device, the copy has not yet written anything,
# because that happens only after the ring has wrapped around.
@pytest.mark.parametrize("entry, at, call, more", [("cuMemcpyHtoDAsync_v2", 3, "h2d", 1),
                                                   ("cuMemcpyDtoHAsync_v2", 18, "d2h", 0)])
def test_a_transfer_that_is_refused_in_the_middle(run, expected, entry, at, call, more):
    """Part of the copy has already been issued. So this copy returns the driver's error, and no other copy does."""
    done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:{at}:999", **STAGED)
    plain = native(run, expected).splitlines()
    wrong = [line for line, right in zip(done.stdout.splitlines(), plain) if line != right]
    assert done.returncode == 0 and wrong[0].startswith(f"{call} -> 999") and len(wrong) == 1 + more, wrong
