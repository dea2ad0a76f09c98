# SPDX-License-Identifier: Apache-2.0
"""Makes stalls on purpose, and checks that the log has each one with its cause. Other tests check rules that the log
must always obey."""
import glob
import json
import os
import subprocess

import pytest

from conftest import APPS, PRELOAD
from stallkit import GIVE_BACK, THRESHOLD_US, Own, events, dropped, most, stalls  # noqa: F401


def judge(own, call, *causes):
    """Checks that most stalls are logged, and that most of those have the right cause."""
    own = [one for one in own if one.call == call and one.worked()]
    assert len(own) >= 8, own
    logged = [one for one in own if one.event]
    right = [one for one in logged if one.event["cause"] in one.causes(*causes)]
    assert most(logged, own), f"{len(logged)} of {len(own)}"
    wrong = [(one.event["cause"], one.event["evidence"]) for one in logged if one not in right]
    assert most(right, logged), wrong
    assert any(one.event["cause"] in causes for one in right), logged
    assert all(one.event["call"] == call for one in logged)


# With profiling, jemalloc serves the big blocks, too. Otherwise realloc moves their pages, and free unmaps them.
JEMALLOC = "prof:true,prof_active:false,"


def test_forced_purge(stalls):
    own, _ = stalls("purge", 12, JEMALLOC + GIVE_BACK)
    judge(own, "free", "purge")


def test_unmapping_a_huge_block(stalls):
    own, _ = stalls("unmap", 12, GIVE_BACK)
    judge(own, "free", "map")


def test_reallocs_copy_into_fresh_pages(stalls):
    own, _ = stalls("realloc", 12, JEMALLOC + GIVE_BACK)
    judge(own, "realloc", "faults")
    for one in own:
        assert not one.event or one.event["size"] % (96 << 20) == 0


def test_reallocs_copy_into_pages_that_are_there(stalls):
    # Only the last 16 calls count, because the first calls of each size still map memory.
    own, _ = stalls("realloc", 20, JEMALLOC + "dirty_decay_ms:99999,oversize_threshold:0")
    judge(own[-16:], "realloc", "copy")


def test_calloc_of_used_pages(stalls):
    """jemalloc frees these pages to get zeroed ones, so this is a purge inside calloc."""
    own, _ = stalls("calloc", 12, JEMALLOC + "dirty_decay_ms:99999,oversize_threshold:0")
    judge(own, "calloc", "purge")


def collect_waits(stalls, least, *words):
    """Repeats the run until at least `least` calls waited. Returns these calls and the number of dropped events.
    Skips the test if too few calls waited in 8 runs."""
    waited, lost = [], 0
    for _ in range(8):
        own, logged = stalls(*words)
        waited += [one for one in own if one.waited()]
        lost += dropped(logged)
        if len(waited) >= least:
            return waited, lost
    pytest.skip("busy: too few calls waited in 8 runs")


def test_contended_arena(stalls):
    """The holder of the lock loses its CPU, and the other threads wait."""
    waited, lost = collect_waits(stalls, 8, "lock", 1500, "narenas:1,tcache:false")
    found = [one for one in waited if one.event]
    assert most(found, waited, lost), f"{len(found)} of {len(waited)}"
    right = [one for one in found if one.event["cause"] == "lock"]
    assert most(right, found), [one.event for one in found if one not in right]


def test_fork_holds_the_heap(stalls):
    """The log does not time a page fault before the call's first slow path. After a fork, the parent's pages fault, so
    this may be the wait of up to half of the calls, and of two thirds on a busy machine. There the thread may also wait for a
    CPU for most of the call."""
    waited, _ = collect_waits(stalls, 10, "fork", 40, "narenas:64")
    found = [one for one in waited if one.event]
    assert len(found) * 5 >= len(waited), f"{len(found)} of {len(waited)}"
    wrong = [one.event for one in found if one.event["cause"] not in ("fork", "unknown", "preempted")]
    assert not wrong
    assert any(one.event["cause"] == "fork" for one in found)


def test_stopped_process(stalls):
    """In a process with one thread, a thread that copies memory never waits."""
    stopped = []
    for _ in range(5): # a busy machine leaves the child little time to copy between the stops
        own, _ = stalls("stop", 12, GIVE_BACK, min_us=100000)
        stopped += [one for one in own if one.waits and one.event and one.event["us"] >= 100000]
        if len(stopped) >= 3:
            break
    else:
        pytest.skip("busy: the stops met no copy")
    wrong = [one.event for one in stopped if one.event["cause"] not in one.causes("paused", "unknown")]
    assert not wrong
    assert any(one.event["cause"] == "paused" for one in stopped)


def test_quiet_program_logs_nothing(run, compile_c, tmp_path):
    program = compile_c("""
        #include <stdlib.h>
        int main(void) {
            for (int i = 0; i < 200000; i++) free(malloc(64 + i % 4000));
            return 0;
        }""", name="quiet")
    found = run(program, GPUFEED_LOG=tmp_path / "log", GPUFEED_STALL_US=1000000)
    assert found.returncode == 0 and not found.stderr
    assert not (tmp_path / "log").exists()


def test_off(stalls, tmp_path):
    for env in (dict(GPUFEED="off"), dict(GPUFEED="observe"), dict(GPUFEED_HEAP="off")):
        _, logged = stalls("purge", 2, GIVE_BACK, **env)
        assert not (tmp_path / "log").exists(), env


@pytest.mark.parametrize("library,kind", [(None, "purge"), ("libtcmalloc_minimal.so.4", "realloc"),
                                          ("libmimalloc.so.2", "realloc"), ("libjemalloc.so.2", "realloc"),
                                          # jemalloc's large blocks begin at any offset in a page
                                          ("libjemalloc.so.2", "purge")])
def test_another_allocators_large_calls(run, tmp_path, library, kind):
    """The log has the duration and the thread's usage, but not the parts of the other allocator's
    call."""
    if library and not glob.glob(f"/usr/lib/*-linux-gnu/{library}"):
        pytest.skip(f"no {library} on this machine")
    log = tmp_path / "log"
    found = run(APPS / "stalls", kind, 12, 2 * THRESHOLD_US, GPUFEED_LOG=log, GPUFEED_STALL_US=THRESHOLD_US // 2,
                LD_PRELOAD=f"{PRELOAD}:{library}" if library else PRELOAD, GPUFEED_HEAP="wrap")
    assert found.returncode == 0, found.stderr
    own = [own for own in map(Own, found.stdout.splitlines()) if own.worked()]
    if len(own) < 3:
        pytest.skip("busy: the calls were too quick")
    call = {"purge": "free", "realloc": "realloc"}[kind]
    size = {"purge": 64 << 20, "realloc": 96 << 20}[kind]
    logged = [event for event in events(log) if event["call"] == call]
    assert most(logged[:len(own)], own)
    assert all(event["size"] % size == 0 and event["stack"] for event in logged)
    allowed = ("unknown", "faults", "preempted", "throttled", "compaction", "reclaim")
    assert all(event["cause"] in allowed for event in logged), logged
    assert all(event["cause"] == "unknown" or "cpu_us" in event for event in logged)


def test_another_allocators_blocks_stay_its_own(run, compile_c):
    """Watching a large block through realloc and free, including a failed realloc, changes
    nothing."""
    program = compile_c(r"""
        #include <errno.h>
        #include <malloc.h>
        #include <stdint.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #define MIB ((size_t)1 << 20)
        static int whole(const char *block, size_t size, char with) {
            for (size_t i = 0; i < size; i += 4096) if (block[i] != with) return 0;
            return block[size - 1] == with;
        }
        int main(void) {
            for (int i = 1; i < 64; i++) { /* each size by each function, three times */
                size_t size = (size_t)(i % 7 + 1) * MIB - 1000;
                char *block = i % 3 ? malloc(size) : memalign(4096, size), *moved;
                memset(block, i, size);
                errno = 0;
                volatile size_t much = PTRDIFF_MAX;
                if (realloc(block, much) || errno != ENOMEM || !whole(block, size, (char)i)) return 1;
                if (!(moved = realloc(block, size * 3)) || !whole(moved, size, (char)i)) return 2;
                if (!(moved = realloc(moved, 100)) || !whole(moved, 100, (char)i)) return 3;
                free(moved);
                void *aligned = NULL;
                errno = 77;
                if (posix_memalign(&aligned, 3, MIB) != EINVAL || aligned || errno != 77) return 4;
                char *zero = calloc(size, 2);
                if (!zero || !whole(zero, size * 2, 0)) return 5;
                errno = 77;
                free(zero);
                if (errno != 77 && errno != 0) return 6;
                if (calloc(much, 3) || errno != ENOMEM) return 7;
                free(NULL);
            }
            return 0;
        }""", "-fno-builtin", "-w", name="large")
    for library in "", "libtcmalloc_minimal.so.4", "libmimalloc.so.2", "libjemalloc.so.2":
        if library and not glob.glob(f"/usr/lib/*-linux-gnu/{library}"):
            continue
        plain, ours = (run(program, LD_PRELOAD=f"{preload}:{library}".strip(":"), GPUFEED_HEAP="wrap",
                           GPUFEED_LOG="/dev/null", GPUFEED_STALL_US=1) for preload in ("", PRELOAD))
        assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), library


def test_threshold_zero_is_off(run, tmp_path):
    found = run(APPS / "stalls", "purge", 2, 0, GPUFEED_LOG=tmp_path / "log", GPUFEED_STALL_US=0,
                MALLOC_CONF=GIVE_BACK)
    assert found.returncode == 0 and not (tmp_path / "log").exists()


def test_header(stalls, tmp_path):
    stalls("purge", 2, GIVE_BACK, RANK=3, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2, SLURM_JOB_ID=77)
    first, *rest = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert first["event"] == "process" and first["schema"] == 2
    assert (first["rank"], first["local_rank"]) == (3, 1)
    assert first["job"]["SLURM_JOB_ID"] == "77"
    assert first["program"] == str(APPS / "stalls") and first["host"] == os.uname().nodename
    assert all(event["event"] == "stall" and event["pid"] == first["pid"] for event in rest)
    assert all(event["mono"] >= event["start"] for event in rest)


def test_one_file_per_process(run, tmp_path):
    found = run("sh", "-c", f"{APPS}/stalls p 1 0; {APPS}/stalls p 1 0",
                GPUFEED_LOG=tmp_path / "%p.log", MALLOC_CONF=GIVE_BACK, GPUFEED_STALL_US=20)
    assert found.returncode == 0, found.stderr
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    for path in files:
        assert all(str(event["pid"]) == path.stem for event in events(path))


def test_full_disk_loses_lines_only(stalls, run):
    found = run(APPS / "stalls", "purge", 3, 0, GPUFEED_LOG="/dev/full", MALLOC_CONF=GIVE_BACK)
    assert found.returncode == 0 and not found.stderr and len(found.stdout.splitlines()) == 3


def test_no_more_than_a_burst(run, tmp_path):
    """Each call is a stall here. The log counts most of them, and writes only a few."""
    log = tmp_path / "log"
    found = run(APPS / "stalls", "burst", 2000, 10**9, GPUFEED_LOG=log, GPUFEED_STALL_US=1,
                MALLOC_CONF=GIVE_BACK)
    assert found.returncode == 0
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(logged) < 1500
    assert sum(event.get("dropped", 0) for event in logged) + len(logged) > 1500


def test_descriptors_and_errno_are_left_alone(run, compile_c, tmp_path):
    program = compile_c(r"""
        #include <errno.h>
        #include <fcntl.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            char *block = malloc(64 << 20);
            memset(block, 1, 64 << 20);
            errno = 77;
            free(block);
            return errno != 77 || open("/dev/null", 0) != 3;
        }""", "-fno-builtin", name="leaves")
    found = run(program, GPUFEED_LOG=tmp_path / "log", MALLOC_CONF=GIVE_BACK, GPUFEED_STALL_US=10)
    assert found.returncode == 0
    assert events(tmp_path / "log")


def test_no_stall_with_no_log_opens_nothing(run, tmp_path):
    """A process that neither logs nor feeds a GPU has neither the log's threads nor its file."""
    trace = tmp_path / "trace"
    found = subprocess.run(["strace", "-f", "-o", trace, APPS / "stalls", "purge", "1", "0"],
                           env=run.env(MALLOC_CONF=GIVE_BACK), check=False, capture_output=True)
    if found.returncode != 0:
        pytest.skip("strace does not work here")
    text = trace.read_text()
    assert "/proc/self/cgroup" not in text and "O_APPEND" not in text
