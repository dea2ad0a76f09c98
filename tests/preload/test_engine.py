# SPDX-License-Identifier: Apache-2.0
"""The engine on the simulated driver, on a machine whose two CPUs count as two nodes."""
import json
import re

import pytest

from conftest import PRELOAD, SOURCE
from enginekit import *


def test_threads_before_and_after_are_bound(feed):
    found = feed("""
        early = [idle_thread() for _ in range(5)]
        start()
        late = [idle_thread() for _ in range(3)]
        assert mask() == [1], mask()
        for tid in early + late:
            assert mask(tid) == [1], (tid, mask(tid))
        for name, cpus in masks():
            assert cpus == [1] or name == "gpufeed", (name, cpus)
    """)
    line, = verdict_lines(found)
    # Six threads exist when cuInit is called. On a busy machine, cuInit returns before the library's thread has had a
    # CPU, and later threads are counted, too.
    assert re.match(r"gpufeed: GPU 0 NVIDIA H200 0000:06:00\.0 node 1 \(sysfs\): [6-9] threads on CPUs 1; memory",
                    line), line
    assert "gpufeed: after" in found.stderr and "9 of 9 threads on CPUs 1" in found.stderr


@pytest.mark.parametrize("option", [{"GPUFEED_BIND": "off"}, {"GPUFEED": "off"},
                                    {"GPUFEED": "observe"}])
def test_negative_control(feed, option):
    found = feed("""
        tid = idle_thread()
        start()
        assert mask() == [0, 1] and mask(tid) == [0, 1]
        assert "GPUFEED_BOUND" not in subprocess.run(["env"], capture_output=True, text=True).stdout
    """.replace("tid =", "import subprocess\n        tid =", 1), **option)
    lines = verdict_lines(found)
    if option == {"GPUFEED": "off"}:
        assert found.stderr == ""
    elif option == {"GPUFEED": "observe"}:
        assert "observed only; would use CPUs 1" in lines[0]
    else:
        assert "not bound: GPUFEED_BIND=off" in lines[0]


def test_one_cpu_near_the_gpu_binds_nothing(feed, tmp_path):
    """One CPU is too few for the threads that submit work and the driver's threads."""
    found = feed("""
        other = idle_thread()
        start()
        assert mask() == [0, 1] and mask(other) == [0, 1], (mask(), mask(other))
    """, GPUFEED_BIND="auto", GPUFEED_REPORT=tmp_path / "report")
    line, = verdict_lines(found)
    assert "not bound: only 1 CPU of node 1 may be used, but 2 are needed: nothing is bound" in line, line
    assert json.loads((tmp_path / "report").read_text())["binding"]["in_force"] is False


def test_quiet_by_default(feed):
    assert feed("start()\nassert mask() == [1]", GPUFEED_VERBOSE=None).stderr == ""


def test_no_cuda_says_nothing(feed):
    assert feed("import subprocess; subprocess.run(['true'])", GPUFEED_ODD=1).stderr == ""


def test_threads_started_during_binding(feed):
    feed("""
        stop = False
        tids, lock = [], threading.Lock()
        def make():
            while not stop and len(tids) < 400:
                tid = idle_thread()
                with lock:
                    tids.append(tid)
        makers = [threading.Thread(target=make) for _ in range(3)]
        for maker in makers:
            maker.start()
        start()
        stop = True
        for maker in makers:
            maker.join()
        for i in range(20):
            tids.append(idle_thread())
        wrong = [tid for tid in tids if mask(tid) != [1]]
        assert not wrong, (len(wrong), len(tids))
    """)


def test_self_set_threads_are_left_alone(feed):
    found = feed("""
        own = idle_thread()
        os.sched_setaffinity(own, {0})
        other = idle_thread()
        start()
        assert mask(own) == [0] and mask(other) == [1] and mask() == [1]
        os.sched_setaffinity(other, {0})
        time.sleep(2.5)
        assert mask(other) == [0]
    """)
    assert "1 with its own mask" in verdict_lines(found)[0]


def test_save_set_restore_ends_bound(feed):
    """Like NCCL, the program saves its mask before the binding, and restores it afterwards."""
    feed("""
        init()
        saved = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {0})
        inner = idle_thread()
        context()
        assert mask() == [0]
        os.sched_setaffinity(0, saved)
        assert wait_for(lambda: mask() == [1]), mask()
        assert mask(inner) == [0] # its creator's wish
        saved = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {0})
        os.sched_setaffinity(0, saved)
        assert mask() == [1]
    """, devices=f"{NODE1},{NODE0}")


WORKERS = """
    import multiprocessing, sys
    def work(queue):
        queue.put(mask())
    def ask(method, count=2):
        context_ = multiprocessing.get_context(method)
        queue = context_.Queue()
        workers = [context_.Process(target=work, args=(queue,)) for _ in range(count)]
        for worker in workers:
            worker.start()
        found = [queue.get(timeout=40) for _ in workers]
        for worker in workers:
            worker.join()
        return found
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_after_the_first_context(feed, method):
    feed(WORKERS + f"""
    if __name__ == "__main__":
        start()
        assert ask("{method}") == [[1], [1]]
    """)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_before_the_first_context(feed, method):
    found = feed(WORKERS + f"""
    def stay(queue, go):
        queue.put(mask())
        go.wait(40)
        queue.put(mask())
    if __name__ == "__main__":
        method = multiprocessing.get_context("{method}")
        queue, go = method.Queue(), method.Event()
        worker = method.Process(target=stay, args=(queue, go))
        worker.start()
        assert queue.get(timeout=40) == [0, 1]
        start()
        go.set()
        assert queue.get(timeout=40) == [1]
        worker.join()
        assert worker.exitcode == 0
        assert ask("{method}") == [[1], [1]] # a forkserver that was there before, too
    """)
    assert re.search("worker threads? on CPUs 1", verdict_lines(found)[0])


def test_provisional_choice_moves_once(feed):
    found = feed("""
        tid = idle_thread()
        init()
        context(0)
        assert mask() == [1]
        context(1)
        allocate(100)
        assert mask() == [1]
        allocate(200)
        assert mask() == [0] and mask(tid) == [0]
    """, devices=f"{NODE1},{NODE0}")
    assert len(verdict_lines(found)) == 3 # the first verdict, the second, and the line about the change
    assert "moved from CPUs 1 to 0" in found.stderr


def test_several_gpus_get_the_union(feed):
    found = feed("""
        init()
        context(0)
        allocate(300)
        assert mask() == [1]
        context(1)
        allocate(300)
        assert mask() == [0, 1]
    """, devices=f"{NODE1},{NODE0}")
    assert "2 GPUs" in found.stderr


def test_local_rank_settles_it_at_init(feed):
    feed("init()\nassert mask() == [0], mask()", devices=f"{NODE1},{NODE0}", LOCAL_RANK=1,
         LOCAL_WORLD_SIZE=2, RANK=1, WORLD_SIZE=2)


def test_waits_when_several_are_visible(feed):
    found = feed("init()\nassert mask() == [0, 1]", devices=f"{NODE1},{NODE0}")
    assert verdict_lines(found) == []


def test_user_mask_is_left(feed):
    found = feed("start()\nassert mask() == [0]", taskset="0")
    assert "none of which is on the GPU's node 1" in found.stderr
    quiet = feed("start()", taskset="0", GPUFEED_VERBOSE=0)
    assert "GPUFEED_BIND=force" in quiet.stderr # the remedy is printed with GPUFEED_VERBOSE=0, too


def test_bad_options_are_said_once_and_only_with_cuda(feed):
    found = feed("start()", GPUFEED_VERBOSE=0, GPUFEED_MEM="odd", GPUFEED_BNID=1)
    assert "GPUFEED_MEM=odd is not valid; allowed: auto, preferred, strict, off" in found.stderr
    assert "GPUFEED_BNID is not an option (did you mean GPUFEED_BIND?)" in found.stderr
    assert len(found.stderr.splitlines()) == 2
    forked = feed("""
        start()
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
    """.replace("start()", "import sys\n        start()", 1), GPUFEED_VERBOSE=0, GPUFEED_MEM="odd")
    assert len(forked.stderr.splitlines()) == 1


def test_unreadable_machine_is_said(feed, tmp_path):
    """The report and the summary are written, although nothing can be bound."""
    found = feed("start()\nassert mask() == [0, 1]", GPUFEED_MACHINE="/nonexistent", GPUFEED_REPORT=tmp_path / "report")
    assert "cannot read the machine recorded in /nonexistent" in found.stderr
    assert "not bound: the machine could not be read" in found.stderr
    report = json.loads((tmp_path / "report").read_text())
    assert report["machine"] is None and report["verdict"]["reason"] == "the machine could not be read"


RACE = """
#include <pthread.h>
#include <stdio.h>
#include <sched.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int gpufeed_active(void) __attribute__((weak));
static pthread_t racer;
static void *race(void *arg) { return cuInit(0) ? arg : NULL; }
__attribute__((constructor)) static void begin(void)
{
    pthread_create(&racer, NULL, race, "failed");
    cuInit(0); /* while dlopen holds the loader's lock; whoever comes first loads the engine */
}
int finish(void)
{
    void *context, *result; cpu_set_t set;
    pthread_join(racer, &result);
    for (int i = 0; !gpufeed_active() && i < 10000; i++) usleep(1000);
    if (result || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 2;
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set) == 1 && CPU_ISSET(1, &set) ? 0 : 1;
}
"""


def test_init_in_a_constructor_races_a_thread(feed, compile_c):
    from conftest import SIM_DIR
    library = compile_c(RACE, "-shared", "-fPIC", f"{SIM_DIR}/libcuda.so.1", name="librace.so")
    for _ in range(5):
        feed(f"assert ctypes.CDLL('{library}').finish() == 0")


def test_foreign_hwloc_and_plugins_bring_nothing_new(feed):
    found = feed("""
        import ctypes, ctypes.util
        name = ctypes.util.find_library("hwloc")
        foreign = ctypes.CDLL(name) if name else None
        def maps():
            return {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
        ctypes.CDLL("libcuda.so.1")
        before = maps()
        start()
        new = {os.path.basename(path) for path in maps() - before}
        new = {path for path in new if not path.startswith("libgf") and "gpufeed" not in path}
        assert not {p for p in new if "hwloc" in p or "OpenCL" in p or "nvidia" in p or "GL" in p
                    or "udev" in p}, new
        assert mask() == [1]
    """)
    assert verdict_lines(found)


def test_missing_engine_leaves_the_program_alone(run, machine, tmp_path):
    import shutil
    preload = shutil.copy(PRELOAD, tmp_path / "libgpufeed.so")
    found = run(PYTHON, "-c", "from feeder import *; start(); print(mask())", sim=True,
                LD_PRELOAD=preload, PYTHONPATH=HERE, GPUFEED_VERBOSE=1, GPUFEED_MACHINE=machine,
                SIM_DEVICES=NODE1, LD_LIBRARY_PATH=PRELOAD.parents[2] / "tests" / "sim")
    assert found.returncode == 0 and found.stdout.strip() == "[0, 1]"
    assert len(found.stderr.splitlines()) == 1 and "libgpufeed-engine.so" in found.stderr


def test_log_has_the_decisions(feed, tmp_path):
    feed("""
        init()
        context(0)
        context(1)
        allocate(300)
    """, devices=f"{NODE1},{NODE0}", GPUFEED_LOG=tmp_path / "log-%r-%p.jsonl", RANK=7)
    path, = tmp_path.glob("log-*.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    process, *events = [event for event in events if event["event"] not in ("stall", "threads")]  # stalls and threads depend on the machine
    assert process["event"] == "process"
    assert [event["event"] for event in events] == ["decided", "decided", "rebound", "exit"]
    assert events[0]["cpus"] == "1" and events[1]["cpus"] == "0"
    assert all(event["pid"] == int(path.stem.split("-")[2]) for event in events)


def test_engine_thread(feed):
    feed("""
        start()
        def ours():
            return next((tid for tid, name in thread_names().items() if name == "gpufeed"), None)
        assert wait_for(ours)
        status = open(f"/proc/self/task/{ours()}/status").read()
        blocked = int([l for l in status.splitlines() if l.startswith("SigBlk")][0].split()[1], 16)
        wanted = sum(1 << (n - 1) for n in range(1, 65) if n not in (9, 19, 32, 33))
        assert blocked & wanted == wanted, hex(blocked)
        if os.fork() == 0:
            assert len(os.listdir("/proc/self/task")) == 1
            start = idle_thread()
            os._exit(0 if mask(start) == [1] else 1)
        assert os.wait()[1] == 0
    """)


NVML = """
#include <string.h>
#include <stdio.h>
int nvmlInit_v2(void) { fprintf(stderr, "nvml init\\n"); return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **ret) { *ret = (void *)id; return 0; }
int nvmlDeviceGetMemoryAffinity(void *device, unsigned n, unsigned long *set, unsigned scope)
{ memset(set, 0, n * sizeof *set); set[0] = 2; return scope; }
"""


def test_nvml_is_asked_only_where_it_is_loaded(feed, compile_c, tmp_path):
    unknown = tmp_path / "unknown"
    split = load_make().Machine(2, 1, 1, 1, 8)
    split.gpu(NODE1, -1, "0-1")
    split.write(unknown)
    library = compile_c(NVML, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1",
                        name="libnvidia-ml.so.1")
    found = feed(f"ctypes.CDLL('{library}')\nstart()\nassert mask() == [1], mask()",
                 GPUFEED_MACHINE=unknown)
    assert "node 1 (NVML)" in verdict_lines(found)[0] and "nvml init" in found.stderr
    found = feed("start()", GPUFEED_MACHINE=unknown, SIM_HOST_NUMA_ID=1)
    assert "node 1 (driver attribute)" in verdict_lines(found)[0]
    assert "nvml init" not in found.stderr
    found = feed("start()\nassert mask() == [0, 1]", GPUFEED_MACHINE=unknown, SIM_HOST_NUMA_ID=-1)
    assert "node unknown: not bound" in verdict_lines(found)[0]


def test_the_main_job(run, machine):
    """A program's unmodified training loop, whose worker processes start before the first context."""
    found = run("taskset", "-c", "0,1", PYTHON, SOURCE / "examples" / "feed.py", "--batches", 20,
                "--batch-mib", 1, sim=True,
                GPUFEED_VERBOSE=1, GPUFEED_BIND="node", GPUFEED_MACHINE=machine, SIM_DEVICES=NODE1)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("20 batches of 1 MiB")
    line, = verdict_lines(found)
    assert re.search("worker threads? on CPUs 1", line) and "gpufeed: after" in found.stderr
    plain = run(PYTHON, SOURCE / "examples" / "feed.py", "--batches", 5,
                "--batch-mib", 1, sim=True, preload=False)
    assert plain.returncode == 0 and plain.stderr == ""
