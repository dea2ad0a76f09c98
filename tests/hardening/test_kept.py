# SPDX-License-Identifier: Apache-2.0
"""Compares the resident memory of idle programs (bench/idle.c) with that under libjemalloc."""

import glob
import json
import subprocess
import sys

import pytest
from conftest import CUDA, PRELOAD_TESTS, SIM_DIR, SOURCE

sys.path.append(str(PRELOAD_TESTS))
from pinkit import memory_group

SECONDS = 27  # pages are purged after 10 to 20 seconds without use
KINDS = {"freed": "200", "idle": "24", "turns": "24"}
# For each arm, its environment, and further arguments of the program.
ARMS = {"libjemalloc": ({"LD_PRELOAD": "libjemalloc.so.2"}, []),
        "ours": ({}, []),
        "ours, huge pages": ({"MALLOC_CONF": "thp:always"}, []),
        "ours, a GPU": ({}, ["gpu"])}
MORE_MIB = 64


@pytest.mark.skipif(not glob.glob("/usr/lib/*/libjemalloc.so.2"), reason="no libjemalloc.so.2 to compare with")
def test_what_is_not_reused_goes_back(run, compile_c, tmp_path):
    """Runs the programs of all cases at the same time in one test, because each takes SECONDS."""
    program = compile_c((SOURCE / "bench" / "idle.c").read_text(), "-O2", "-fno-builtin", "-pthread", "-ldl",
                        f"-I{SOURCE / 'bench'}", name="idle")
    started = {}
    for arm, (extra, words) in ARMS.items():
        for kind, number in KINDS.items():
            report = {"GPUFEED_REPORT": tmp_path / f"{kind}.json"} if words else {}
            env = run.env(preload="LD_PRELOAD" not in extra, sim=bool(words), **extra, **report)
            started[arm, kind] = subprocess.Popen([program, kind, number, str(SECONDS), *words], env=env, text=True,
                                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done = {key: process.communicate(timeout=120) for key, process in started.items()}
    assert not any(process.returncode for process in started.values()), done
    assert not any(stderr for _, stderr in done.values()), done
    mib = {key: [float(word) for word in stdout.split()] for key, (stdout, _) in done.items()}
    for (arm, kind), (before, after) in mib.items():
        most = [1.2 * value + MORE_MIB for value in mib["libjemalloc", kind]]
        assert after <= most[1], (arm, kind, mib)
        if kind == "turns":  # the threads already sleep, so this is the memory in their caches
            assert before <= most[0], (arm, kind, mib)
    if not (tmp_path / "freed.json").exists():
        pytest.skip("the machine is so busy that cuInit did not wait for the engine, and the program makes no later call")
    heap = json.loads((tmp_path / "freed.json").read_text())["heap"]["retained"]
    assert heap["unused_purged_bytes"] >= 150 << 20, heap
    assert heap["max_bytes"] <= 64 << 20 and heap["unused_bytes"] <= heap["max_bytes"], heap


@pytest.mark.parametrize("words", [[], ["gpu"]])
def test_threads_that_take_turns_fit_into_a_small_group(run, compile_c, words):
    """One after the other, 32 threads use 40 MiB each and then sleep. With jemalloc's default for large blocks, their
    caches would hold 1132 MiB."""
    program = compile_c((SOURCE / "bench" / "idle.c").read_text(), "-O2", "-fno-builtin", "-pthread", "-ldl",
                        f"-I{SOURCE / 'bench'}", name="idle")
    group = memory_group(600 << 20)
    enter = f'echo 0 > {group}/cgroup.procs; exec "$@"'
    try:
        done = run("sh", "-c", enter, "sh", program, "turns", 32, 2, *words, sim=bool(words))
    finally:
        group.rmdir()
    assert done.returncode == 0, done


ACCOUNT = r"""
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define MIB ((size_t)1 << 20)
static pthread_barrier_t cached;
static void *fill_cache(void *arg)
{
    void *blocks[64];
    for (int i = 0; i < 64; i++) memset(blocks[i] = malloc(4096), 1, 4096);
    for (int i = 0; i < 64; i++) free(blocks[i]);
    pthread_barrier_wait(&cached);
    for (;;) pause();
    return arg;
}
int main(void)
{
    CUcontext context; CUdeviceptr device; pthread_t thread; void *pinned;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&device, 8 * MIB)) return 1;
    char *block = malloc(8 * MIB);
    memset(block, 1, 8 * MIB);
    for (int i = 0; i < 200; i++) { if (cuMemcpyHtoD(device, block, 8 * MIB)) return 2; usleep(1000); }
    if (cuMemHostAlloc(&pinned, 4096, 0) || cuMemFreeHost(pinned)) return 3;
    pthread_barrier_init(&cached, NULL, 9);
    for (int i = 0; i < 8; i++) pthread_create(&thread, NULL, fill_cache, NULL);
    pthread_barrier_wait(&cached);
    char *freed = malloc(64 * MIB);
    memset(freed, 1, 64 * MIB);
    free(freed);
    return 0;
}
"""


def test_the_report_accounts_for_what_is_kept(run, compile_c, tmp_path):
    program = compile_c(ACCOUNT, "-pthread", "-isystem", CUDA, f"-L{SIM_DIR}", "-l:libcuda.so.1", name="account")
    report = tmp_path / "report.json"
    done = run(program, sim=True, GPUFEED_REPORT=report, GPUFEED_STAGE_THREADS=4)
    assert done.returncode == 0, done
    found = json.loads(report.read_text())
    kept = found["kept"]
    assert 48 << 20 <= kept["dirty_bytes"] + kept["lazily_freed_bytes"] <= 64 << 20, kept
    assert kept["thread_cache_bytes"] >= 8 * 16 * 4096, kept
    assert kept["ring_bytes"] == found["transfers"]["ring"]["bytes"] > 0, kept
    assert kept["pinned_cache_bytes"] == found["transfers"]["pinned_memory"]["cached_bytes"] > 0, kept
    assert kept["unmap_pending_bytes"] == 0, kept
    parts = [value for name, value in kept.items() if name not in ("bytes", "unused_bytes")]
    assert kept["bytes"] == sum(parts), kept


def test_another_allocator_leaves_the_heap_out(run, compile_c, tmp_path):
    program = compile_c(ACCOUNT, "-pthread", "-isystem", CUDA, f"-L{SIM_DIR}", "-l:libcuda.so.1", name="account")
    report = tmp_path / "report.json"
    done = run(program, sim=True, GPUFEED_REPORT=report, GPUFEED_HEAP="off", GPUFEED_STAGE_THREADS=4)
    kept = json.loads(report.read_text())["kept"]
    assert done.returncode == 0 and kept["dirty_bytes"] == kept["thread_cache_bytes"] == 0 < kept["ring_bytes"], kept
