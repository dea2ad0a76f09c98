# SPDX-License-Identifier: Apache-2.0
"""gpufeed doctor judges the clocks of the CPUs that feed a GPU."""

import pathlib

import pytest

from conftest import COMMAND
from doctorkit import ALLOWED, CPUFREQ, GPU, Machine, findings, inside, needs_two


@pytest.fixture
def doctor(run):
    def call(*args, **env):
        return run(COMMAND, "doctor", *args, preload=False, **env)
    return call


def cpufreq(policies):
    """Returns the files of cpufreq policies; each policy has CPUs, a governor and a preference. The file of each CPU
    except a policy's first has an unknown governor, which doctor must not read."""
    files = {}
    for cpus, governor, preference in policies:
        for cpu in cpus:
            folder = f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
            files[f"{folder}/affected_cpus"] = " ".join(map(str, cpus)) + " \n"
            files[f"{folder}/scaling_governor"] = f"{governor if cpu == cpus[0] else 'unknown'}\n"
            if preference:
                files[f"{folder}/energy_performance_preference"] = f"{preference}\n"
    return files


def each(cpus, governor, preference=None):
    return [([cpu], governor, preference) for cpu in cpus]


# Of eight CPUs, the first four are on the GPU's node. Columns: policies, the GPU's node, and the
# finding.
LOW = "lower their clock when they idle"
CLOCKS = {
    "all of the node": (each(range(4), "powersave") + each(range(4, 8), "performance"), 0,
                        f"4 of 4 CPUs near a GPU {LOW} (governor powersave): 0-3"),
    "the other node": (each(range(4), "performance") + each(range(4, 8), "powersave"), 0,
                       "CPUs keep their clock high (governor performance)"),
    "an unknown node": (each(range(4), "performance") + each([4, 5, 7], "powersave") + each([6], "performance"), -1,
                        f"3 of 8 CPUs {LOW} (governor powersave): 4-5,7"),
    "one CPU": (each([0, 1, 3], "performance") + each([2], "ondemand"), 0,
                "1 of 4 CPUs near a GPU lowers its clock when it idles (governor ondemand): 2"),
    "mixed": (each([0], "performance") + each([1], "schedutil") + each([2], "powersave", "balance_performance") +
              each([3], "powersave", "performance"), 0,
              f"2 of 4 CPUs near a GPU {LOW} (governor schedutil; powersave, preference balance_performance): 1-2"),
    "mixed and well": (each([0, 1], "performance") + each([2], "powersave", "performance") + each([3], "powersave", "0"), 0,
                       "CPUs keep their clock high (governor performance; powersave, preference performance; "
                       "powersave, preference 0)"),
    "more settings than are told apart": (
        [([cpu], "powersave", prefers) for cpu, prefers in enumerate(("performance", "0", "64", "128"))] +
        each(range(4, 8), "conservative"), 1, f"4 of 4 CPUs near a GPU {LOW} (governor conservative): 4-7"),
    "a shared policy": ([([0, 1, 2, 3], "schedutil", None)] + each(range(4, 8), "performance"), 0,
                        f"4 of 4 CPUs near a GPU {LOW} (governor schedutil): 0-3"),
    "a policy across nodes": ([([2, 3, 4, 5], "schedutil", None)] + each([0, 1, 6, 7], "performance"), 1,
                              f"2 of 4 CPUs near a GPU {LOW} (governor schedutil): 4-5"),
    "CPUs without a governor": (each([1, 2], "schedutil"), 0, f"2 of 2 CPUs near a GPU {LOW} (governor schedutil): 1-2"),
}


def write_clocks(folder, policies, gpu_node, count=8):
    machine = Machine(2, 1, count // 2, 1, 64)
    machine.gpu(GPU, gpu_node)
    machine.write(folder)
    for name, text in cpufreq(policies).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return f"--machine={folder}"


def governor(told):
    found = [one for one in findings(told) if one["check"] == "governor"]
    assert len(found) <= 1, found
    return found[0] if found else None


@pytest.mark.parametrize("name", CLOCKS)
def test_clocks_of_the_cpus_near_a_gpu(doctor, tmp_path, name):
    policies, node, what = CLOCKS[name]
    told = governor(doctor(write_clocks(tmp_path, policies, node), "--json"))
    assert told["summary"] == what
    assert told["status"] == ("ok" if "keep" in what else "problem")


def test_the_files_of_each_low_setting_are_named(doctor, tmp_path):
    policies, node, _ = CLOCKS["mixed"]
    told = governor(doctor(write_clocks(tmp_path, policies, node), "--json"))
    assert told["evidence"] == ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor: schedutil; /sys/devices/system/cpu/cpu2/"
                            "cpufreq/scaling_governor: powersave, energy_performance_preference: balance_performance")


def test_of_many_cpus_the_first_are_named(doctor, tmp_path):
    low = range(4, 512, 2)
    policies = each(low, "schedutil") + each(set(range(512)) - set(low), "performance")
    told = governor(doctor(write_clocks(tmp_path, policies, 0, 512), "--json"))
    assert told["summary"] == f"126 of 256 CPUs near a GPU {LOW} (governor schedutil): 4,6,8,10,12,14,16,18,20,22,..."


def mount_clocks(folder, policies):
    """Returns a line of shell that mounts these policies over those of this machine's CPUs."""
    system = pathlib.Path("/sys/devices/system/cpu")
    files = {f"sys/devices/system/cpu/{name}": (system / name).read_text() for name in ("online", "possible", "present")}
    for file in system.glob("cpu[0-9]*/topology/*"):
        files[str(file)[1:]] = file.read_text()
    for name, text in {**files, **cpufreq(policies)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return f"mount --bind {folder}/sys/devices/system/cpu {system}"


@needs_two
def test_clocks_of_the_cpus_that_may_be_used(tmp_path):
    first, last = ALLOWED[0], ALLOWED[-1]
    mount = mount_clocks(tmp_path, each([first], "performance") + each([last], "powersave"))
    assert inside(mount, ["taskset", "-c", str(first)])["governor"]["status"] == "ok"
    told = inside(mount, ["taskset", "-c", str(last)])["governor"]
    assert told["summary"] == f"1 of 1 CPUs lowers its clock when it idles (governor powersave): {last}"
    assert inside(mount)["governor"]["summary"].startswith("1 of 2 CPUs lowers ")


@needs_two
def test_clocks_are_recorded_by_policy(doctor, tmp_path):
    first, last = ALLOWED[0], ALLOWED[-1]
    mount = mount_clocks(tmp_path, [([first, last], "powersave", "balance_power")])
    here = inside(f'{mount} && "$3" topo --record {tmp_path}/copy >&2', ["env", "--"])["governor"]
    assert here["summary"].startswith(f"2 of 2 CPUs {LOW} (governor powersave, preference balance_power): {first}")
    copied = tmp_path / "copy" / "sys/devices/system/cpu"
    assert (copied / f"cpu{first}" / "cpufreq").is_dir() and not (copied / f"cpu{last}" / "cpufreq").exists()
    assert governor(doctor(f"--machine={tmp_path}/copy", "--json")) == here
