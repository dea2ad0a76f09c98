# SPDX-License-Identifier: Apache-2.0
"""How long the GPU had nothing to do: GPUFEED_GPU_TIME, on the simulated driver."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import APPS, Runner

PROGRAM = APPS / "gpu_time"


@pytest.fixture
def sample(run, tmp_path):
    def start(*words, **env):
        """Runs the program. Returns the finished process, and the section `gpu_time` of its report."""
        done = run(PROGRAM, *words, sim=True, GPUFEED_REPORT=tmp_path / "report.json", GPUFEED_VERBOSE=1, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done, json.loads((tmp_path / "report.json").read_text())["gpu_time"]
    return start


def only(found):
    """Returns the section of the only device, after a check that its shares sum to 1."""
    device, = found["devices"]
    assert abs(sum(state["share"] for state in device["states"].values()) - 1) < 1e-4
    causes = sum(cause["s"] for cause in device["causes"].values())
    assert abs(causes - device["states"]["empty"]["s"]) < 0.02
    return device


def share(device, state):
    """Returns the state's share of the known time. On a busy machine some samples are late, and the time before a late
    sample counts as unknown."""
    states = device["states"]
    return states[state]["share"] / (1 - states["unknown"]["share"])


def test_an_idle_gpu_is_empty(sample):
    done, found = sample("idle", 1500)
    device = only(found)
    assert found["sampled"] and device["samples"] > 10
    assert share(device, "empty") > 0.9
    causes = {cause: row["s"] for cause, row in device["causes"].items() if cause != "preempted"}  # by other processes
    assert max(causes, key=causes.get) == "sleep", device["causes"]
    assert "the GPU had nothing to do" in done.stderr
    assert device["exact_s"] > 0.8 * device["states"]["empty"]["s"]


def test_the_summary_leads_with_the_answer(sample):
    """Each line names the rank. Only calls of more than a minute count as stalls here, so the summary's line on
    stalls says that there was none."""
    rank = dict(RANK=3, WORLD_SIZE=4, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2)
    lines = sample("read", 1500, GPUFEED_STALL_US=60000000, **rank)[0].stderr.splitlines()
    assert all(line.startswith("gpufeed: rank 3: ") for line in lines)
    _, answer, *causes, stalls, placement = [line.removeprefix("gpufeed: rank 3: ") for line in lines]
    assert len(lines) <= 12 and answer.startswith("the GPU had nothing to do")
    assert any("waiting for workers, which slept" in cause for cause in causes)
    assert stalls.startswith("no stall above 60000 ms in ") and placement.startswith("after ")


def test_a_client_of_mps_is_named(run, tmp_path):
    """Attribute 133 is CU_DEVICE_ATTRIBUTE_MPS_ENABLED."""
    for mps in [0, 1]:
        done = run(PROGRAM, "idle", sim=True, GPUFEED_REPORT=tmp_path / "report.json", GPUFEED_VERBOSE=1,
                   SIM_ATTRIBUTES=f"133:{mps}", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40)
        line = "MPS shares the GPU with other processes; its idle time here is that of this one; " \
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40"
        assert (line in done.stderr) == bool(mps), done.stderr
        assert json.loads((tmp_path / "report.json").read_text())["gpus"][0]["mps"] is bool(mps)


FREES_ENVIRONMENT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    char *value = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
    putenv(strcpy(value, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40"));
    if (((int (*)(unsigned))dlsym(cuda, "cuInit"))(0) ||
        ((int (*)(void **, unsigned, int))dlsym(cuda, "cuCtxCreate_v2"))(&context, 0, 0)) return 1;
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    return munmap(value, 4096);
}
"""


def test_a_client_of_mps_that_frees_its_environment(run, compile_c):
    done = run(compile_c(FREES_ENVIRONMENT, "-ldl"), sim=True, GPUFEED_VERBOSE=1, SIM_ATTRIBUTES="133:1")
    assert done.returncode == 0 and "THREAD_PERCENTAGE=40" in done.stderr, done


def test_a_single_rank_is_not_named(sample):
    rank = dict(RANK=0, WORLD_SIZE=1, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1)
    assert "rank" not in sample("idle", 100, **rank)[0].stderr


TWO_PROCESSES = """
import os, subprocess, sys
children = [subprocess.Popen([sys.argv[1], "idle", "200"], env=dict(os.environ, **env)) for env in ({}, {}, dict(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1"))]
print(*(child.pid for child in children))
sys.exit(any(child.wait() for child in children))
"""


def test_processes_without_ranks_are_named_by_their_ids(run):
    """The parent of each is preloaded too, so there may be several. A rank is named as such."""
    done = run("python3", "-c", TWO_PROCESSES, PROGRAM, sim=True, GPUFEED_VERBOSE=1)
    assert done.returncode == 0
    first, second, _ = done.stdout.split()
    for name in (f"pid {first}", f"pid {second}", "rank 1"):
        assert f"gpufeed: {name}: GPU 0 " in done.stderr and f"gpufeed: {name}: after " in done.stderr
    assert all(line.startswith(("gpufeed: pid ", "gpufeed: rank 1: ")) for line in done.stderr.splitlines())


def test_a_process_alone_has_no_name(run):
    assert all(line.startswith(("gpufeed: GPU 0 ", "gpufeed: the GPU", "gpufeed:   ", "gpufeed: no stall", "gpufeed: after "))
               for line in run(PROGRAM, "idle", 200, sim=True, GPUFEED_VERBOSE=1).stderr.splitlines())


def test_a_busy_gpu_is_queued(sample):
    assert share(only(sample("busy", 1500)[1]), "queued") > 0.9


def test_a_read_of_a_pipe_waits_for_the_child_that_sleeps(sample):
    for _ in range(4):  # on a busy machine the thread may have no CPU for a part of the time
        device = only(sample("read", 1500)[1])
        if device["causes"].get("workers_sleep", {"share": 0})["share"] > 0.8:
            return
    assert device["causes"].get("workers_sleep", {"share": 0})["share"] > 0.8


def test_a_stream_of_the_thread_is_seen_empty(sample):
    assert share(only(sample("own", 1000)[1]), "empty") > 0.9


@pytest.mark.parametrize("how", ["lost", "reset"])
def test_a_capture_ends_with_its_stream_or_context(sample, how):
    """No stream is queried while a capture is open. A capture that the program never ends does not last for ever."""
    assert share(only(sample(how, 1500)[1]), "empty") > 0.9


def test_a_thread_that_ends_inside_a_copy_copies_no_more(sample):
    done, found = sample("ended", 4000, SIM_DELAY="cuMemcpyHtoD_v2:20000000")
    states = only(found)["states"]
    assert done.stdout == "ended inside\n" and states["empty"]["share"] > states["copying"]["share"]


def test_streams_and_contexts_may_end_beside_the_sampler(sample):
    """With very frequent samples, which occur between all kinds of calls, each call succeeds and each capture is
    complete."""
    done, found = sample("races", 2500, GPUFEED_GPU_TIME=5000)
    assert done.stdout == "rounds\n" and found["questions"] > 10 and found["refused"] == 0


def test_a_forked_child_submits_without_a_sampler(sample):
    assert sample("forks", 300)[0].stdout == "child 0\n"


def test_without_it_nothing_is_asked(sample):
    done, found = sample("idle", 200, GPUFEED_GPU_TIME=0)
    assert found["sampled"] is False and found["devices"] == [] and "nothing to do" not in done.stderr
    assert found["reason"] == "GPUFEED_GPU_TIME is 0"


def test_a_profiler_in_the_driver_turns_it_off_unless_asked_for(sample):
    found = sample("idle", 200, CUDA_INJECTION64_PATH="/none.so")[1]
    assert found["sampled"] is False and "profiler" in found["reason"]
    found = sample("idle", 200, CUDA_INJECTION64_PATH="/none.so", GPUFEED_GPU_TIME=200)[1]
    assert found["sampled"] is True and found["reason"] is None


def has_sampler(process):
    for name in pathlib.Path(f"/proc/{process.pid}/task").glob("*/comm"):
        try:
            if name.read_text(encoding="ascii") == "gpufeed-gputime\n":
                return True
        except OSError:  # the thread has ended
            pass
    return False


def time_while(tmp_path, mode, disturb, ms):
    """The GPU's time in a program, while disturb(process) runs once its report and its sampler exist."""
    report = tmp_path / "report.json"
    report.unlink(missing_ok=True)
    process = subprocess.Popen([PROGRAM, mode, str(ms)], env=Runner().env(sim=True, GPUFEED_REPORT=report))
    read_while(process, report, len)
    while process.poll() is None and not has_sampler(process):
        time.sleep(0.01)
    disturb(process)
    assert process.wait(60) == 0
    return json.loads(report.read_text())["gpu_time"]


def causes_in(found):
    return {name: cause["s"] for name, cause in only(found)["causes"].items()}


def stop(process, seconds):
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def delay_s(process):
    """The run-queue delay of the main thread."""
    with open(f"/proc/{process.pid}/task/{process.pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9


def starve(process):
    """Other processes have the only CPU that the program may use, until its main thread has waited 2 s for it. One would
    leave the sampler the little time that it needs."""
    cpu = {min(os.sched_getaffinity(0))}
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
    for other in others:
        os.sched_setaffinity(other.pid, cpu)
    try:
        for tid in map(int, os.listdir(f"/proc/{process.pid}/task")):
            os.sched_setaffinity(tid, cpu)
            os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
        enough = delay_s(process) + 2
        while process.poll() is None and delay_s(process) < enough:
            time.sleep(0.01)
    except (FileNotFoundError, ProcessLookupError):
        pass  # the program has ended
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_stopped_process_is_paused(tmp_path):
    """On a busy machine, the sampler may have taken no sample before a short stop, or none between it and the program's end."""
    for factor in (1, 3, 9):
        found = time_while(tmp_path, "idle", lambda process, stopped=0.7 * factor: stop(process, stopped), 3000 * factor)
        paused = causes_in(found).get("paused", 0)
        if paused > 0.3:
            break
    assert paused > 0.3


def test_a_process_without_a_cpu_is_not_paused(tmp_path):
    """The sampler's own thread is late, too. Its run-queue delay shows that it was runnable. Others have the CPU meanwhile.
    On a busy machine, the sampler and the other processes may start when a short program has almost ended."""
    with open("/proc/thread-self/schedstat", encoding="ascii") as file:
        if file.read().split()[0] == "0":
            pytest.skip("the kernel does not count run-queue delays")
    for ms in (4000, 12000, 36000):
        found = time_while(tmp_path, "compute", starve, ms)
        causes, without = causes_in(found), found["without_cpu"]
        if causes.get("preempted", 0) > 0.3 and without["s"] > 0.2:
            break
    assert causes.get("preempted", 0) > 0.3 and causes.get("paused", 0) < 0.3 * causes["preempted"], causes
    assert without["s"] > 0.2 and without["own_cpu_s"] < 0.7 * without["s"] and without["cpus"] == 1


def read_while(process, path, found, seconds=60):
    """The contents of the file as it changes, until found(contents) is true."""
    contents = []
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        if path.exists():
            now = json.loads(path.read_text())
            if not contents or contents[-1]["written_at"] != now["written_at"]:
                contents.append(now)
                if found(contents):
                    break
        time.sleep(0.1)
    return contents


def is_renewed_between_samples(contents):
    """Returns whether the library's thread has written the file again without a new sample."""
    return len(contents) > 1 and len(contents[-1]["samples"]) == len(contents[-2]["samples"]) and contents[-1]["ran_s"] > 9


def test_a_killed_job_keeps_its_answer(tmp_path):
    """The library renews the report between samples, and after SIGKILL the last report is complete."""
    report = tmp_path / "report.json"
    process = subprocess.Popen([PROGRAM, "idle", "90000"], env=Runner().env(sim=True, GPUFEED_REPORT=report))
    contents = read_while(process, report, is_renewed_between_samples)
    process.send_signal(signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL
    assert is_renewed_between_samples(contents)
    left = json.loads(report.read_text())
    assert left["state"] == "running" and left["written_at"] >= contents[-1]["written_at"]
    assert share(only(left["gpu_time"]), "empty") > 0.9 and left["stalls"]["count"] >= 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_repeated_launches_on_unlisted_streams_do_not_ask_the_driver(run):
    """The library's table has 512 slots. Each of 700 streams gets 20 launches, of which only the first causes a question."""
    done = run(APPS / "unlisted_streams", sim=True, SIM_FAULT="cuStreamGetCtx:20000:999")
    assert done.returncode == 0 and 700 <= int(done.stdout) < 800, done
