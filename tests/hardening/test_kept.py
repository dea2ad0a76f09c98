# SPDX-License-Identifier: Apache-2.0
"""Memory that a program no longer uses, measured by bench/idle.c: what stays resident is compared with libjemalloc's."""

import glob
import json
import subprocess

import pytest
from conftest import CUDA, SIM_DIR, SOURCE

SECONDS = 27  # pages go back after 10 to 20 seconds without use
KINDS = {"freed": "200", "idle": "24", "turns": "24"}
# Environment, and words of the program.
ARMS = {"libjemalloc": ({"LD_PRELOAD": "libjemalloc.so.2"}, []),
        "ours": ({}, []),
        "ours, huge pages": ({"MALLOC_CONF": "thp:always"}, []),
        "ours, a GPU": ({}, ["gpu"])}
MORE_MIB = 64


@pytest.mark.skipif(not glob.glob("/usr/lib/*/libjemalloc.so.2"), reason="no libjemalloc.so.2 to compare with")
def test_what_is_not_reused_goes_back(run, compile_c, tmp_path):
    """All cases are in one test, because it waits: all programs run at the same time."""
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
        if kind == "turns":  # its threads sleep from the start: what their caches hold stays
            assert before <= most[0], (arm, kind, mib)
    heap = json.loads((tmp_path / "freed.json").read_text())["heap"]["retained"]
    assert heap["unused_purged_bytes"] >= 150 << 20, heap
    assert heap["max_bytes"] <= 64 << 20 and heap["unused_bytes"] <= heap["max_bytes"], heap


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
    assert kept["dirty_bytes"] + kept["lazily_freed_bytes"] >= 64 << 20, kept
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
