# SPDX-License-Identifier: Apache-2.0
"""The files of examples/ are well formed, and start the right programs. Launchers and driver are simulated."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

from conftest import COMMAND, PRELOAD, SIM_DIR, SOURCE

EXAMPLES = SOURCE / "examples"
JOB = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); context = ctypes.c_void_p(); "
       "print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))")


def documents(name):
    return list(yaml.safe_load_all((EXAMPLES / "kubernetes" / name).read_text()))


@pytest.fixture
def path(tmp_path):
    """A folder for PATH with gpufeed and launchers that drop their options and start the rest."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "gpufeed").symlink_to(COMMAND)
    (folder / "python").symlink_to(sys.executable)

    def launcher(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    launcher("srun", 'echo "srun $*" >"${SRUN_WORDS:-/dev/null}"; while case $1 in --*) ;; *) false ;; esac; do shift; done; exec "$@"')
    launcher("mpirun", 'test "$1 $3 $4" = "-np --bind-to none"; shift 4; exec "$@"')
    show = 'echo "arguments $*"; exec python -c "' + JOB + '"'
    for name in ("torchrun", "vllm", "ray"):
        launcher(name, show)
    return folder


def test_list_names_every_example():
    named = set(re.findall(r"\]\(([\w./-]+)\)", (EXAMPLES / "README.md").read_text()))
    tracked = subprocess.run(["git", "-C", SOURCE, "ls-files", "examples"], capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("this is no checkout")
    files = {name.removeprefix("examples/") for name in tracked.stdout.split()}
    assert named == files - {"README.md", "docker/Dockerfile.dockerignore", "docker/Dockerfile.entrypoint.dockerignore"}


def test_pod_is_guaranteed_and_its_references_hold():
    (pod,) = documents("pod.yaml")
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    spec = pod["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for container in spec["initContainers"] + spec["containers"]:
        resources = container["resources"]
        assert resources["requests"] == resources["limits"] and {"cpu", "memory"} <= set(resources["limits"])
        assert resources["limits"]["cpu"].isdigit()
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
    folder = spec["containers"][0]["command"][0].removesuffix("/bin/gpufeed")
    init = spec["initContainers"][0]
    assert init["volumeMounts"][0]["name"] == mounts[folder]
    assert init["command"][-1] == init["volumeMounts"][0]["mountPath"]


def test_pod_copies_the_bundle_as_the_container_expects_it(run, tmp_path):
    (pod,) = documents("pod.yaml")
    copy = pod["spec"]["initContainers"][0]["command"]
    (tmp_path / "opt" / "bin").mkdir(parents=True)
    shutil.copy(COMMAND, tmp_path / "opt" / "bin")
    (tmp_path / "volume").mkdir()
    places = {copy[2]: f"{tmp_path}/opt/.", copy[3]: tmp_path / "volume"}
    assert run(*(places.get(word, word) for word in copy), preload=False).returncode == 0
    assert (tmp_path / "volume" / "bin" / "gpufeed").is_file()


def test_webhook_never_stops_a_pod():
    (webhook,) = documents("webhook.yaml")
    assert webhook["apiVersion"] == "admissionregistration.k8s.io/v1"
    assert webhook["kind"] == "MutatingWebhookConfiguration"
    for hook in webhook["webhooks"]:
        assert hook["failurePolicy"] == "Ignore" and hook["sideEffects"] == "None"
        assert 1 <= hook["timeoutSeconds"] <= 30 and hook["admissionReviewVersions"]
        assert hook["objectSelector"]["matchLabels"] and hook["name"].count(".") >= 2
        assert not hook["clientConfig"]["service"]["name"].startswith("gpufeed")  # see webhook.yaml
        # A webhook that serves its own namespace could keep its own server from starting.
        (expression,) = hook["namespaceSelector"]["matchExpressions"]
        assert expression["operator"] == "NotIn" and hook["clientConfig"]["service"]["namespace"] in expression["values"]


def test_policy_never_stops_a_pod_and_keeps_other_preloads():
    policy, binding = documents("policy.yaml")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    spec = policy["spec"]
    assert spec["failurePolicy"] == "Ignore" and spec["matchConstraints"]["objectSelector"]["matchLabels"]
    (mutation,) = spec["mutations"]
    expression = mutation["applyConfiguration"]["expression"]
    outside = re.sub(r'"[^"]*"', "", expression)
    assert all(outside.count(opened) == outside.count(closed) for opened, closed in ("()", "[]", "{}"))
    mounted, = re.findall(r'mountPath: "([^"]+)"', expression)
    assert f'value: "{mounted}/glibc/$LIB/libgpufeed.so" +' in expression and '":" + c.env.filter' in expression


def test_policy_adds_the_library_to_gpu_containers_alone():
    celpy = pytest.importorskip("celpy", reason="the Python package cel-python is not installed")
    policy, _ = documents("policy.yaml")
    expression = policy["spec"]["mutations"][0]["applyConfiguration"]["expression"]
    # The interpreter does not know Kubernetes' types, so maps take their place.
    expression = re.sub(r'(?<=[{,])\s*(\w+):', r'"\1":', re.sub(r"Object(\.\w+)*\{", "{", expression))
    environment = celpy.Environment()
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    pod = {"spec": {"containers": [{"name": "a", "resources": gpu, "env": [{"name": "LD_PRELOAD", "value": "/x.so"}]},
                                   {"name": "b", "resources": gpu}, {"name": "c", "resources": {}}, {"name": "d"}]}}
    added = environment.program(environment.compile(expression)).evaluate({"object": celpy.json_to_cel(pod)})
    containers = json.loads(json.dumps(added, cls=celpy.CELJSONEncoder))["spec"]["containers"]
    assert {one["name"]: one["env"][0]["value"] for one in containers} == {
        "a": "/opt/gpufeed/glibc/$LIB/libgpufeed.so:/x.so", "b": "/opt/gpufeed/glibc/$LIB/libgpufeed.so"}


def test_kubernetes_schemas():
    validator = pytest.importorskip("kubernetes_validate", reason="the Python package kubernetes-validate is not installed")
    for name, version in {"pod.yaml": "1.31", "webhook.yaml": "1.31", "policy.yaml": "1.36"}.items():
        for document in documents(name):
            validator.validate(document, version, strict=True)


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.entrypoint"])
def test_dockerfile(name, run):
    text = (EXAMPLES / "docker" / name).read_text()
    lines = [line for line in text.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= {"FROM", "ARG", "COPY", "RUN", "ENTRYPOINT", "CMD"}
    for line in lines:
        words = line.split()
        if words[0] == "COPY" and not words[1].startswith("--from"):
            assert (SOURCE / words[1]).exists(), line
    # The options of the entry point are valid, and it starts the command as PID 1 would.
    entry, = [json.loads(line.removeprefix("ENTRYPOINT")) for line in lines if line.startswith("ENTRYPOINT")]
    own = entry[1:entry.index("--") + 1]
    result = run(COMMAND, *own, sys.executable, "-c", JOB, preload=False, sim=True)
    assert (result.returncode, result.stdout) == (0, "0 0\n") and "GPU 0" in result.stderr
    assert f"{entry[0].removesuffix('/bin/gpufeed')}\n" in text  # the bundle is copied there


TASK = JOB + "; import os; print(*(os.environ[name] for name in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR')))"


def sbatch(path, run, folder, **env):
    """Runs train.sbatch as rank 9 of 16 on two nodes. Returns the result and srun's options."""
    words = folder / "words"
    result = run(EXAMPLES / "slurm" / "train.sbatch", "python", "-c", TASK, preload=False, sim=True, cwd=folder, SRUN_WORDS=words,
                 PATH=f"{path}:/usr/bin:/bin", SLURM_PROCID=9, SLURM_NTASKS=16, SLURM_LOCALID=1, SLURM_NTASKS_PER_NODE=8,
                 SLURM_CPUS_PER_TASK=6, **env)
    return result, re.match(r"srun ((?:--\S+ )*)", words.read_text())[1].split()


def test_sbatch_runs_its_tasks(path, run, tmp_path):
    for job in 1, 2:
        result, options = sbatch(path, run, tmp_path, SLURM_JOB_ID=job, COMMAND_OF_GPUFEED=COMMAND)
        assert (result.returncode, result.stdout) == (0, "0 0\n9 16 1 8 localhost\n"), result.stderr
        # srun does not inherit --cpus-per-task; each task sees the GPUs of its peers.
        assert {"--cpus-per-task=6", "--gpu-bind=none", "--cpu-bind=none"} <= set(options)
    for suffix in "json", "jsonl":  # the second job has not replaced the first one's files
        assert len(list(tmp_path.glob(f"gpufeed-*/*-9.{suffix}"))) == 2


def test_sbatch_without_the_bundle(path, run, tmp_path):
    result, options = sbatch(path, run, tmp_path, COMMAND_OF_GPUFEED="/none")
    assert (result.returncode, result.stdout) == (0, "0 0\n9 16 1 8 localhost\n") and "run without it" in result.stderr
    assert "--cpu-bind=none" not in options  # nothing else would bind the tasks
    assert not list(tmp_path.glob("gpufeed-*"))


def test_sbatch_hides_no_gpu_from_a_task():
    """With --gpus-per-task a task sees one GPU, which breaks CUDA IPC between ranks."""
    options = re.findall(r"^#SBATCH (\S+)", (EXAMPLES / "slurm" / "train.sbatch").read_text(), re.MULTILINE)
    assert "--gpus-per-node=8" in options and not [word for word in options if word.startswith(("--gpus-per-task", "--gpu-bind"))]


@pytest.mark.parametrize("env, printed", [
    ({}, ""),
    ({"SLURM_JOB_GPUS": "0"}, f"export LD_PRELOAD={PRELOAD}\n"),
    ({"SLURM_STEP_GPUS": "0", "LD_PRELOAD": "libm.so.6"}, f"export LD_PRELOAD={PRELOAD}:libm.so.6\n"),
    ({"SLURM_JOB_GPUS": "0", "LD_PRELOAD": str(PRELOAD)}, ""),
    ({"SLURM_JOB_GPUS": "0", "LIBRARY_OF_GPUFEED": "/none"}, ""),
])
def test_prolog(env, printed, run):
    result = run(EXAMPLES / "slurm" / "prolog.sh", preload=False, **{"LIBRARY_OF_GPUFEED": PRELOAD, **env})
    assert (result.returncode, result.stdout, result.stderr) == (0, printed, "")


def test_prolog_by_a_path_that_musl_ignores(run, tmp_path):
    (tmp_path / "glibc" / "lib").mkdir(parents=True)
    for name in ("lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"):
        (tmp_path / "glibc" / name).symlink_to(PRELOAD.parent)
    library = f"{tmp_path}/glibc/$LIB/libgpufeed.so"
    result = run(EXAMPLES / "slurm" / "prolog.sh", preload=False, LIBRARY_OF_GPUFEED=library, SLURM_JOB_GPUS=0)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"export LD_PRELOAD={library}\n", "")


def test_prolog_with_an_older_glibc(run, tmp_path):
    """The loader ends each program that preloads a library for a newer glibc."""
    library = tmp_path / "libgpufeed.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input="int atoi(const char *);\n"
                   "int f(void) { return atoi(\"1\"); }\n", text=True, check=True)
    needed = re.search(rb"GLIBC_2\.[0-9.]+", library.read_bytes())[0]
    library.write_bytes(library.read_bytes().replace(needed, b"GLIBC_9" + needed[7:]))
    assert run("/bin/true", preload=False, LD_PRELOAD=library).returncode == 1
    result = run(EXAMPLES / "slurm" / "prolog.sh", preload=False, LIBRARY_OF_GPUFEED=library, SLURM_JOB_GPUS=0)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("name, words", [
    ("torchrun", "--standalone --nproc-per-node=2 model"), ("vllm", "serve model"), ("ray", "start --block model")])
def test_launcher(name, words, path, run):
    result = run(EXAMPLES / "launchers" / f"{name}.sh", "model", preload=False, sim=True, RANKS=2,
                 PATH=f"{path}:/usr/bin:/bin")
    assert (result.returncode, result.stdout) == (0, f"arguments {words}\n0 0\n"), result.stderr
    assert "gpufeed: GPU 0 " in result.stderr


def test_launchers_of_python(path, run, tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    env = {"PATH": f"{path}:/usr/bin:/bin", "RANKS": 1}
    result = run(EXAMPLES / "launchers" / "mpirun.sh", tmp_path / "job.py", preload=False, sim=True, **env)
    assert (result.returncode, result.stdout) == (0, "0 0\n") and "gpufeed: GPU 0 " in result.stderr
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "launch_server.py").write_text(f"import sys; print(*sys.argv[1:])\n{JOB}")
    result = run(EXAMPLES / "launchers" / "sglang.sh", "model", preload=False, sim=True, PYTHONPATH=tmp_path, **env)
    assert (result.returncode, result.stdout) == (0, "--model-path model\n0 0\n"), result.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_service(run, tmp_path):
    text = (EXAMPLES / "systemd" / "serving.service").read_text()
    command = re.search(r"^ExecStart=(.*)", text, re.M)[1]
    own = shlex.split(command)[1:]
    unit = tmp_path / "serving.service"
    # systemd-analyze verify requires that the programs exist.
    unit.write_text(text.replace("/opt/gpufeed/bin/gpufeed", str(COMMAND)).replace("/opt/serving/bin/python", sys.executable))
    result = run("systemd-analyze", "--man=no", "verify", unit, preload=False)
    assert (result.returncode, result.stderr) == (0, "")
    own[own.index("--") + 1:] = [sys.executable, "-c", JOB]
    assert run(COMMAND, *own, preload=False, sim=True).stdout == "0 0\n"
