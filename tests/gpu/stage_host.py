# SPDX-License-Identifier: Apache-2.0
"""Stage host: the built objects fit this machine, and `gpufeed topo` agrees with nvidia-smi."""

import json
import re
import subprocess

from common import COMMAND, PRELOAD, Checks, find, run
from split import address

check = Checks("host")


def text(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def objects():
    for name, path in (("preload", PRELOAD), ("engine", find("libgpufeed-engine.so")), ("command", COMMAND)):
        if not check(path is not None, f"{name} is there", str(path)):
            continue
        _, needs, errors = text("ldd", path)
        print(needs)
        check("not found" not in needs + errors, f"{name}: everything that it needs is here")
    code, version, errors = text(COMMAND, "--version")
    check(code == 0 and errors == "", "gpufeed --version", version.strip())


def smi_gpus():
    """{PCI address: name} and {PCI address: CPU affinity}, from nvidia-smi."""
    _, query, _ = text("nvidia-smi", "--query-gpu=index,pci.bus_id,name", "--format=csv,noheader")
    rows = [line.split(", ") for line in query.splitlines()]
    _, matrix, _ = text("nvidia-smi", "topo", "-m")
    print(matrix)
    lines = [re.sub(r"\x1b\[\d*m", "", line).split("\t") for line in matrix.splitlines()]
    column = lines[0].index("CPU Affinity")
    affinity = {line[0][3:]: line[column].strip() for line in lines[1:] if re.match(r"GPU\d+$", line[0])}
    return ({address(bus): name for _, bus, name in rows},
            {address(bus): affinity.get(index) for index, bus, _ in rows})


def topology():
    names, affinity = smi_gpus()
    code, out, errors = text(COMMAND, "topo")
    print(out, errors)
    check(code == 0, "gpufeed topo: exit code 0", str(code))
    code, out, errors = text(COMMAND, "topo", "--json")
    print(out, errors)
    if not check(code == 0, "gpufeed topo --json: exit code 0", str(code)):
        return
    topo = json.loads(out)
    listed = {gpu["pci"]: gpu for gpu in topo["gpus"]}
    check(listed.keys() == names.keys(), "gpufeed topo lists nvidia-smi's GPUs",
          f"{sorted(listed)} against {sorted(names)}")
    everything = ",".join(node["cpus"] for node in topo["nodes"])
    for bus, gpu in listed.items():
        # If the machine does not report the affinity, nvidia-smi prints all CPUs.
        agree = gpu["cpus"] == affinity[bus] or (gpu["cpus"] == "" and affinity[bus] == everything)
        check(agree, f"{bus}: CPUs as nvidia-smi topo", f"`{gpu['cpus']}` against `{affinity[bus]}`")
        check(gpu["name"] == names[bus], f"{bus}: name", str(gpu["name"]))


def unnoticed():
    for command in (["nvidia-smi", "-L"], ["bash", "-c", "ls / | sort | head -3"],
                    ["python3", "-c", "print(1)"]):
        name = "unnoticed-" + command[0]
        bare, ours = run(name + "-bare", command, library=False), run(name, command)
        check((bare.out, bare.err, bare.code) == (ours.out, ours.err, ours.code),
              f"{command[0]} unnoticed", ours.err[:200])


objects()
topology()
unnoticed()
check.end()
