# SPDX-License-Identifier: Apache-2.0
"""How long the GPU had nothing to do: GPUFEED_GPU_TIME, on the simulated driver."""

import json

import pytest
from conftest import APPS

PROGRAM = APPS / "gpu_time"


@pytest.fixture
def sample(run, tmp_path):
    def start(*words, **env):
        """(what ran, its part of the report)"""
        done = run(PROGRAM, *words, sim=True, GPUFEED_REPORT=tmp_path / "report.json", GPUFEED_VERBOSE=1, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done, json.loads((tmp_path / "report.json").read_text())["gpu_time"]
    return start


def only(found):
    """The single device's part. Its shares sum to the whole."""
    device, = found["devices"]
    assert abs(sum(state["share"] for state in device["states"].values()) - 1) < 1e-4
    causes = sum(cause["s"] for cause in device["causes"].values())
    assert abs(causes - device["states"]["empty"]["s"]) < 0.02
    return device


def test_an_idle_gpu_is_empty(sample):
    done, found = sample("idle", 1500)
    device = only(found)
    assert found["sampled"] and device["samples"] > 10
    assert device["states"]["empty"]["share"] > 0.9
    assert max(device["causes"], key=lambda cause: device["causes"][cause]["s"]) == "waiting"
    assert "the GPU had nothing to do" in done.stderr
    assert device["exact_s"] > 0.8 * device["states"]["empty"]["s"]


def test_a_busy_gpu_is_queued(sample):
    device = only(sample("busy", 1500)[1])
    assert device["states"]["queued"]["share"] > 0.9


def test_a_read_of_a_pipe_is_a_wait_for_data(sample):
    device = only(sample("read", 1500)[1])
    assert device["causes"]["data"]["share"] > 0.8


def test_a_stream_of_the_thread_is_seen_empty(sample):
    assert only(sample("own", 1000)[1])["states"]["empty"]["share"] > 0.9


def test_streams_and_contexts_may_end_beside_the_sampler(sample):
    """Each call succeeds and each capture is whole, at a rate that meets every pair of calls."""
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
