# SPDX-License-Identifier: Apache-2.0
"""Seccomp filters that kill a process for system calls that it makes only with the library."""

import os
import platform
import re
import shutil
import sys

import pytest

from conftest import BUILD, CUDA, HERE, SIM_DIR, SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "machines"))
import make  # noqa: E402

COMMAND = BUILD / "src" / "tools" / "gpufeed"
GPU = "0000:06:00.0"
X86 = {"openat": 257, "mincore": 27, "move_pages": 279, "migrate_pages": 256, "process_vm_readv": 310,
       "process_vm_writev": 311, "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_getscheduler": 145,
       "sched_setparam": 142, "sched_setattr": 314, "setpriority": 141, "ioprio_set": 251, "get_mempolicy": 239,
       "set_mempolicy": 238, "mbind": 237, "set_mempolicy_home_node": 450}
ARM = {"openat": 56, "mincore": 232, "move_pages": 239, "migrate_pages": 238, "process_vm_readv": 270,
       "process_vm_writev": 271, "sched_setaffinity": 122, "sched_setscheduler": 119, "sched_getscheduler": 120,
       "sched_setparam": 118, "sched_setattr": 274, "setpriority": 140, "ioprio_set": 30, "get_mempolicy": 236,
       "set_mempolicy": 237, "mbind": 235, "set_mempolicy_home_node": 450}
CALLS = X86 if platform.machine() == "x86_64" else ARM
# Sets of forbidden calls: single calls for placement, those of systemd's @resources, and calls that examine memory.
SETS = {"set_mempolicy": ["set_mempolicy"], "mbind": ["mbind"], "sched_setaffinity": ["sched_setaffinity"],
        "resources": ["set_mempolicy", "mbind", "sched_setaffinity", "move_pages", "migrate_pages",
                      "set_mempolicy_home_node", "sched_setscheduler", "sched_setparam", "sched_setattr", "setpriority",
                      "ioprio_set"],
        "looks": ["mincore", "move_pages", "process_vm_readv"], "writes": ["process_vm_writev"]}
ARRIVED = "".join(f"{mib} MiB arrived\n" for mib in (1, 1, 8, 32, 16))
EAGER = {"GPUFEED_STAGE_MIN": "65536", "GPUFEED_STAGE_THREADS": "4"}


def numbers(name):
    return ",".join(str(CALLS[call]) for call in SETS[name])


@pytest.fixture(scope="session")
def filtered(compile_here):
    return compile_here("filtered.c", "-I", str(HERE))


@pytest.fixture(scope="session")
def feeding(compile_here):
    return compile_here("sealed.c", "-I", str(HERE), "-isystem", CUDA, f"-L{SIM_DIR}", "-l:libcuda.so.1")


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    """A machine with CPU 0 and the GPU on node 0, so that the library binds threads and sets policies."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("needs CPUs 0 and 1")
    folder = tmp_path_factory.mktemp("split2")
    split = make.Machine(2, 1, 1, 1, 8)
    split.gpu(GPU, 0)
    split.write(folder)
    return folder


@pytest.mark.parametrize("mib", [1, 16])
def test_heap_makes_only_the_calls_of_an_allocator(run, compile_here, mib):
    run.alike(compile_here("strict.c", "-I", str(HERE), "-fno-builtin"), mib, timeout=100)


def test_heap_frees_without_a_call_in_strict_mode(run, compile_here):
    run.alike(compile_here("strict_mode.c", "-fno-builtin"), timeout=100)


def test_hooks_make_only_the_calls_of_libc(run, compile_here):
    run.alike(compile_here("sealed_calls.c", "-I", str(HERE), "-fno-builtin", "-pthread"), timeout=100)


@pytest.mark.parametrize("mode", [{}, {"GPUFEED": "observe"}, {"GPUFEED": "off"},
                                  {"GPUFEED_BIND": "off", "GPUFEED_MEM": "off"}])
@pytest.mark.parametrize("what", SETS)
def test_process_with_a_gpu(run, filtered, feeding, machine, what, mode):
    done = run(filtered, numbers(what), feeding, "NONE", sim=True, GPUFEED_MACHINE=machine, SIM_DEVICES=GPU,
               timeout=100, **{"GPUFEED_BIND": "node", **EAGER, **mode})
    assert (done.returncode, done.stdout) == (0, ARRIVED), done
    assert not mode or not done.stderr, done.stderr


@pytest.mark.parametrize("what", ["looks", "writes"])
@pytest.mark.parametrize("whom", ["NONE", "PROCESS"])
def test_program_that_handles_faults(run, filtered, feeding, what, whom):
    """Then copies would use process_vm_readv and process_vm_writev. The filter is there at the start, or comes later."""
    calls = [CALLS[call] for call in SETS[what]]
    command = [filtered, numbers(what), feeding, "NONE"] if whom == "NONE" else [feeding, whom, *calls]
    done = run(*command, sim=True, SEALED_HANDLER=1, timeout=100, **EAGER)
    assert (done.returncode, done.stdout) == (0, ARRIVED), done


def test_what_the_filter_allows_is_still_done(run, filtered, feeding, machine):
    """The library treats a forbidden call as refused by the kernel, and still makes the permitted calls."""
    def said(*calls):
        done = run(filtered, ",".join(str(CALLS[call]) for call in calls), "/usr/bin/python3", "-c",
                   "import sys; sys.path.insert(0, sys.argv[1]); from feeder import *; start(); print(mask())",
                   SOURCE / "tests" / "preload", sim=True, GPUFEED_MACHINE=machine, SIM_DEVICES=GPU,
                   GPUFEED_BIND="node", GPUFEED_VERBOSE=1, timeout=100)
        assert done.returncode == 0, done
        return done.stdout.strip(), done.stderr
    mask, text = said("set_mempolicy")
    assert mask == "[0]" and "the kernel refused set_mempolicy (EPERM)" in text, text
    mask, text = said("sched_setaffinity")
    assert mask == "[0, 1]" and "the kernel refused sched_setaffinity (EPERM)" in text, text
    mask, text = said("mincore")
    assert mask == "[0]" and "refused" not in text, text


@pytest.mark.parametrize("what", SETS)
def test_process_with_a_log(run, filtered, compile_c, tmp_path, what):
    program = compile_c(r"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        int main(void) {
            for (int i = 0; i < 20; i++) { char *p = calloc(1, 24 << 20); memset(p, 1, 24 << 20); free(p); }
            puts("done");
        }""", "-fno-builtin", name="logged")
    run.alike(filtered, numbers(what), program, GPUFEED_LOG=tmp_path / "log", GPUFEED_STALL_US=1,
              timeout=100)
    assert "block_node" in (tmp_path / "log").read_text() or "move_pages" in SETS[what]


@pytest.mark.parametrize("verb", [["topo"], ["topo", "--json"], ["doctor"], ["run", "--print", "--", "true"],
                                  ["run", "--", "true"], ["--version"], ["report", "/nonexistent"]])
@pytest.mark.parametrize("what", SETS)
def test_verbs(run, filtered, machine, what, verb):
    open_to_all = run(COMMAND, *verb, preload=False, GPUFEED_MACHINE=machine, timeout=100)
    done = run(filtered, numbers(what), COMMAND, *verb, preload=False, GPUFEED_MACHINE=machine, timeout=100)
    assert open_to_all.returncode in range(0, 4), open_to_all
    if verb == ["doctor"]:  # doctor reports the refused calls
        assert done.returncode in range(0, 4), done
    else:
        assert done.returncode == open_to_all.returncode, done


SETTING = ("sched_setaffinity,set_mempolicy,mbind,set_mempolicy_home_node,migrate_pages,ioprio_set,setpriority,"
           "sched_setscheduler,sched_setattr")


@pytest.fixture
def strace(run, machine, tmp_path):
    """strace(calls, *command) -> the calls, one a line after the thread's id"""
    if not shutil.which("strace"):
        pytest.skip("no strace")

    def go(calls, *command, **environment):
        trace = tmp_path / "trace"
        done = run("strace", "-f", "-qq", "-o", trace, "-e", f"trace={calls}", *command, GPUFEED_MACHINE=machine,
                   GPUFEED_BIND="node", timeout=100, **environment)
        assert done.returncode in range(0, 4), done
        return trace.read_text()
    return go


@pytest.mark.parametrize("mode", ["observe", "on"])
def test_observe_sets_nothing(strace, feeding, mode):
    text = strace(SETTING, feeding, "NONE", sim=True, SIM_DEVICES=GPU, GPUFEED=mode, **EAGER)
    assert ("(" in text) == (mode == "on"), text


@pytest.mark.parametrize("verb", [["topo"], ["doctor"], ["run", "--print", "--", "true"],
                                  ["run", "--mode=observe", "--", "true"]])
def test_verbs_set_nothing(strace, verb):
    """Only child processes try calls that set something. Without --print or observe, `run` would bind the program."""
    text = strace("clone,clone3,fork,vfork," + SETTING, COMMAND, *verb, preload=False)
    # Threads are made by clone3, or with CLONE_THREAD.
    processes = set(re.findall(r"(?:clone\((?!.*CLONE_THREAD)|clone resumed).* = (\d+)$", text, re.M))
    setters = set(re.findall(rf"^(\d+) +(?:{SETTING.replace(',', '|')})\(", text, re.M))
    assert setters <= processes and (setters or "--print" not in verb), text


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("whom", ["THREAD", "PROCESS"])
def test_program_that_forbids_calls_after_its_start(run, feeding, machine, whom, preload):
    done = run(feeding, whom, *[CALLS[call] for call in ("openat", "mincore", "move_pages", "process_vm_readv",
                                                        "process_vm_writev", "sched_getscheduler", "get_mempolicy",
                                                        "sched_setscheduler", "sched_setaffinity", "set_mempolicy", "mbind")],
               sim=True, preload=preload, GPUFEED_MACHINE=machine, SIM_DEVICES=GPU, GPUFEED_BIND="node", timeout=100, **EAGER)
    assert (done.returncode, done.stdout) == (0, ARRIVED), done


def test_filter_of_a_vfork_child_is_not_its_parents(run, compile_here, tmp_path):
    """The child of vfork installs the filter. It shares its parent's memory, but the filter does not apply to the
    parent."""
    program = compile_here("vfork_child.c", "-fno-builtin")
    run.alike(program, GPUFEED_LOG=tmp_path / "log", GPUFEED_STALL_US=1,
              timeout=100)
    assert "block_node" in (tmp_path / "log").read_text()


def test_child_that_allows_two_calls(run, compile_here, machine, tmp_path):
    """The parent has a log. A child permits only write and exit_group, and its end must make no other call."""
    program = compile_here("filtered_child.c", "-I", str(HERE), "-isystem", CUDA, f"-L{SIM_DIR}", "-l:libcuda.so.1",
                           "-fno-builtin")
    done = run.alike(program, sim=True, GPUFEED_MACHINE=machine, SIM_DEVICES=GPU, GPUFEED_LOG=tmp_path / "log",
                     GPUFEED_STALL_US=1, GPUFEED_VERBOSE=0, timeout=100)
    assert done.stdout == "1 7\n" * 3
