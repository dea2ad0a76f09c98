# SPDX-License-Identifier: Apache-2.0
"""Jobs of bench/nodes.py that torchrun starts, one rank on each GPU, and their cases: training, DistributedDataParallel,
from_pretrained, a decode loop. All ranks of a job work at once."""

import atexit
import os
import pathlib
import subprocess
import tempfile
import time
import types

import arms
import loaders_jobs
import nodes_places as places
import train
from nodes_machine import proc
from train_jitter import share

PYTHON = train.PYTHON
START = arms.SOURCE / "bench" / "nodes_start.py"
TRAIN, LOADERS = arms.SOURCE / "bench" / "train_arm.py", arms.SOURCE / "bench" / "loaders_arm.py"
RIGHT, WRONG, TORCHRUN = "numactl", "numactl wrong", "torchrun"
NEVER_BELOW = 0.98
BEST = (RIGHT, TORCHRUN)  # the library is compared with the better one
OFF = {"GPUFEED_BIND": "off"}


def place(cpus, node):
    return f"{proc.show(cpus)}:{node}"


def places_of(reading, gpus, far=False):
    """Returns the argument of nodes_start.py that binds each rank to the node of its GPU, or to the farthest node."""
    nodes = [reading.far_from(gpu.node) if far else gpu.node for gpu in gpus]
    return ";".join(place(reading.cpus[node], policy_node(reading, node)) for node in nodes)


def policy_node(reading, node):
    return "" if reading.policy != "permitted" else 0 if reading.pretended else node


def visible(gpus):
    """Returns the environment by which a process sees these GPUs, in this order."""
    if arms.DRY:
        return {"SIM_DEVICES": ",".join(gpu.pci for gpu in gpus)}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in gpus)}


def has_numa_binding():
    if arms.DRY:
        return False
    done = subprocess.run([PYTHON, "-m", "torch.distributed.run", "--help"], env=arms.environment(), capture_output=True, text=True, check=False)
    return "--numa-binding" in done.stdout or "--numa_binding" in done.stdout


class Rank(arms.Arm):
    """A rank of a job that torchrun started, by its two pipes."""

    def __init__(self, job, rank):  # pylint: disable=super-init-not-called
        self.command, self.waits_for, self.opening, self.unread = f"rank {rank} of {job.name}", "ready", None, b""
        self.patience, self.errors, self.pid_file = arms.PATIENCE, job.errors, pathlib.Path(job.folder.name, f"pid.{rank}")
        reads, writes = (f"{job.folder.name}/{way}.{rank}" for way in ("out", "in"))
        # opened for both, because a rank opens its end later
        self.process = types.SimpleNamespace(stdin=os.fdopen(os.open(writes, os.O_RDWR), "wb", buffering=0),
                                             stdout=os.fdopen(os.open(reads, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0),
                                             poll=job.process.poll, wait=job.process.wait, pid=job.process.pid)

    def pid(self):
        return int(self.pid_file.read_text(encoding="ascii"))


class Torchrun:
    """torchrun with a rank for each GPU. With `where`, each rank is bound like under numactl."""

    def __init__(self, name, command, gpus, options=(), where=None, **env):
        self.name, self.folder, self.errors = name, tempfile.TemporaryDirectory(prefix="gpufeed-nodes-"), tempfile.TemporaryFile()
        for rank in range(len(gpus)):
            for way in ("in", "out"):
                os.mkfifo(f"{self.folder.name}/{way}.{rank}")
        start = [*(["--places", where] if where else []), "--pipes", self.folder.name, "--", PYTHON, *command]
        port = train.free_port()
        launcher = [PYTHON, START, "--ranks", len(gpus)] if arms.DRY else \
            [PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", len(gpus), "--master_addr", "127.0.0.1", "--master_port", port, *options, START]
        line = [*launcher, *start]
        self.process = subprocess.Popen([str(word) for word in line], cwd=arms.SOURCE, stdin=subprocess.DEVNULL, stdout=self.errors,
                                        stderr=self.errors, start_new_session=True,
                                        env=arms.environment(**visible(gpus), MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS=1, **env))
        self.ranks = [Rank(self, rank) for rank in range(len(gpus))]
        atexit.register(self.kill)

    def begin(self):
        """Waits until all ranks run. torchrun may end before one does, and the pipes would not show that."""
        while not all(rank.pid_file.exists() for rank in self.ranks):
            if self.process.poll() is not None:
                raise RuntimeError(f"torchrun ended with {self.process.returncode}: {self.ranks[0].stderr()[-2000:]}")
            time.sleep(0.05)
        for rank in self.ranks:
            rank.begin()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 15)  # torchrun then ends its ranks, which have sessions of their own
        self.process.wait()


def jobs(reading, gpus, command, count_of_jobs=7, **env):
    """Starts a job for each arm. Returns {arm: its job} of the arms that this machine and PyTorch can run."""
    right, wrong = places_of(reading, gpus), places_of(reading, gpus, far=True)
    env = {**env, "GF_ARMS": count_of_jobs * len(gpus)}
    made = {"unbound": {}, "again": {}, RIGHT: {"where": right}, WRONG: {"where": wrong},
            "ours": arms.ours(), "ours, BIND=off": arms.ours(**OFF)}
    if has_numa_binding():
        made[TORCHRUN] = {"options": ["--numa-binding", "node"]}
    else:
        print("# torchrun has no --numa-binding here: the arm is left out", flush=True)
    started = {name: Torchrun(name, command, gpus, **how, **env) for name, how in made.items()}
    return those_that_begin(started)


def those_that_begin(started):
    there = {}
    for name, job in started.items():
        try:
            job.begin()
            there[name] = job
        except RuntimeError as error:
            print(f"# {name} cannot run here: {str(error)[:600]}", flush=True)
            job.kill()
    return there


def finish(running):
    """Ends all jobs, and prints those that failed."""
    for job in running.values():
        for rank in job.ranks:
            rank.leave()
    for name, job in running.items():
        if code := job.ranks[0].end():
            print(f"# {name} ended with {code}", flush=True)


def ask_all(ranks, words):
    for rank in ranks:
        rank.send(words)
    return [rank.answer() for rank in ranks]


def steps_turn(job, unit, warm, steps):
    """A turn: rates from a run of steps by all ranks at once, tails from steps that each wait for the GPU."""
    def ask():
        runs = [[float(part) for part in line.split()] for line in ask_all(job.ranks, f"round {warm} {steps}")]
        times = sorted(float(part) for line in ask_all(job.ranks, f"steps {warm} {steps}") for part in line.split())
        units = sum(one[1] for one in runs)
        return {f"{unit}/s": sum(one[1] / one[0] for one in runs), f"slowest {unit}/s": units / max(one[0] for one in runs),
                "p50 ms": 1e3 * share(times, 0.5), "p99 ms": 1e3 * share(times, 0.99), "1/p99": 1 / share(times, 0.99),
                f"CPU ms/{unit[:-1]}": 1e3 * sum(one[2] for one in runs) / units}
    return ask


def claims(running, figures):
    """The library is compared with each binder that runs here, and binding is compared with no binding."""
    made = [("ours", over, figure, NEVER_BELOW, f"of {over} by {figure}") for over in BEST if over in running for figure in figures]
    return made + [(over, under, figure, None, f"by {figure}") for figure in figures
                   for over, under in (("ours", "ours, BIND=off"), (RIGHT, "unbound"), (RIGHT, WRONG)) if {over, under} <= set(running)]


def case(part, running, turns, figures, **about):
    return arms.Case(part, turns, claims(running, figures), most=2 * arms.ROUNDS, part=part,
                     controls=[("again", "unbound", figure) for figure in figures] if {"again", "unbound"} <= set(running) else [], **about)


STEPS = {"images": (1, 2) if arms.DRY else (10, 40), "tokens": (1, 4) if arms.DRY else (20, 200)}


def measure_steps(part, reading, gpus, until, task, unit, hand=False):
    """Returns (cases, places, errors) of a task of bench/train_arm.py."""
    running = jobs(reading, gpus, [TRAIN, *(["--hand"] if hand else [])])
    try:
        for job in running.values():
            if set(ask_all(job.ranks, f"setup {task}")) != {"ok"}:
                raise RuntimeError(f"{job.name} cannot set {task} up")
        turns = {name: steps_turn(job, unit, *STEPS[unit]) for name, job in running.items()}
        made = case(part, running, turns, (f"{unit}/s", "1/p99"), unit=unit, processes=len(gpus))
        arms.rounds([made], until)
        return [made], seen(reading, running, gpus), []
    finally:
        finish(running)


def pretrained_turn(job):
    def ask():
        parts = [loaders_jobs.json.loads(line) for line in ask_all(job.ranks, "go")]
        size = sum(part["bytes"] for part in parts) / 1e9
        return {"GB/s": size / max(part["seconds"] for part in parts), "slowest s": max(part["seconds"] for part in parts),
                "CPU s/GB": sum(part["cpu"] for part in parts) / size}
    return ask


def measure_pretrained(part, reading, gpus, until):
    import loaders
    folder, name = pathlib.Path(os.environ.get("GF_MODELS", "/tmp/gpufeed-models")), "llama-8b"
    if loaders.make_files([name], folder, 200):
        raise RuntimeError("the model cannot be written")
    running = jobs(reading, gpus, [LOADERS, "from_pretrained", folder / name])
    try:
        made = case(part, running, {arm: pretrained_turn(job) for arm, job in running.items()}, ("GB/s",), processes=len(gpus))
        arms.rounds([made], until)
        return [made], seen(reading, running, gpus), []
    finally:
        finish(running)


def seen(reading, running, gpus):
    """Returns the places of all ranks: their threads, their workers' threads, their private memory."""
    found = []
    for name, job in running.items():
        for rank, gpu in zip(job.ranks, gpus):
            pid, cpus = rank.pid(), reading.cpus[gpu.node]
            found += [places.count_threads(name, gpu, "threads", [pid], cpus),
                      places.count_threads(name, gpu, "threads of workers", places.family(pid)[1:], cpus),
                      places.count_private(name, gpu, pid)]
    return found
