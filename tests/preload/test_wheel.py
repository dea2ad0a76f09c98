# SPDX-License-Identifier: Apache-2.0
"""The wheel: its files, and the package where pip puts it, also while a job uses it. The suite full builds it twice, and
compares the bytes (release-full)."""

import base64
import contextlib
import csv
import hashlib
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from conftest import BUILD, SIM_DIR, SOURCE

pytestmark = pytest.mark.usefixtures("installs")

# Uses the driver only after a line on standard input, so that the engine is opened at that moment.
JOB = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
print("started", flush=True)
sys.stdin.readline()
context = ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
"""
BOUND = re.compile(r"^gpufeed: GPU 0 ", re.M)


def backend():
    spec = importlib.util.spec_from_file_location("wheel_backend", SOURCE / "packaging" / "wheel_backend.py")
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


def pip(*words, python=sys.executable):
    return subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "-q", "--disable-pip-version-check",
                           "--no-cache-dir", *map(str, words)], check=True, capture_output=True, text=True, cwd="/")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    return folder / backend().build_wheel(folder, {"build": BUILD})


def install_into_venv(folder, wheel):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip("install", "--no-index", wheel, python=folder / "bin" / "python")
    return folder


@pytest.fixture(scope="module")
def venv(wheel, tmp_path_factory):
    return install_into_venv(tmp_path_factory.mktemp("venv") / "v", wheel)


@pytest.fixture(scope="module")
def blank(wheel, tmp_path_factory):
    """Installs the wheel into a folder whose path LD_PRELOAD cannot hold, because it contains blanks."""
    folder = tmp_path_factory.mktemp("blank") / "it's a b"
    pip("install", "--no-index", "--target", folder, wheel)
    return folder


def is_bound(result):
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("0 0\n")
    return bool(BOUND.search(result.stderr))


def test_cross_build_has_its_own_folder_and_files(monkeypatch, tmp_path):
    """The wheel itself is tested by tests/aarch64. Here nothing is built."""
    module, commands = backend(), []
    (tmp_path / "cross").symlink_to(SOURCE / "cross")
    monkeypatch.setattr(module, "SOURCE", tmp_path)
    monkeypatch.setattr(module, "_run", lambda *words: commands.append([str(word) for word in words]))
    build, packages = tmp_path / "build-wheel-aarch64", tmp_path / "build-aarch64-packages"
    assert module._build({"target": "aarch64"}) == build
    fetch, setup, compile_all = commands
    assert fetch == [f"{tmp_path}/scripts/aarch64-packages.sh", str(packages)] and (SOURCE / "scripts" / "aarch64-packages.sh").exists()
    crossed = [word for before, word in zip(setup, setup[1:]) if before == "--cross-file"]
    assert crossed == [f"{tmp_path}/cross/aarch64.ini", f"{packages}/packages.ini"] and str(build) in setup
    assert compile_all == ["meson", "compile", "-C", str(build)]
    with pytest.raises(SystemExit, match="no cross build for sparc"):
        module._build({"target": "sparc"})


def test_record_has_every_file_and_nothing_runs_at_start(wheel):
    assert re.fullmatch(r"gpufeed-[\d.]+-py3-none-manylinux_2_34_(x86_64|aarch64)\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    record = next(name for name in files if name.endswith("/RECORD"))
    rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(files[record].decode()))}
    assert set(rows) == set(files)
    for name, content in files.items():
        digest = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        assert rows[name] == (("", "") if name == record else (digest, str(len(content)))), name
    assert not [name for name in files if name.endswith(".pth") or "customize" in name]
    assert modes["gpufeed/_bundle/bin/gpufeed"] == modes["gpufeed/_bundle/lib/libgpufeed-engine.so"] == 0o100755
    assert any(name.endswith("man1/gpufeed.1") for name in files)
    assert any("bash-completion" in name for name in files)


def test_source_archive_has_what_the_build_needs(tmp_path):
    with tarfile.open(tmp_path / backend().build_sdist(tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"PKG-INFO", "pyproject.toml", "meson.build", "packaging/wheel_backend.py", "scripts/bundle.sh"} <= names


def test_command_of_a_venv(venv, run):
    library = next(venv.rglob("libgpufeed.so"))
    assert run(venv / "bin" / "gpufeed", "preload-path", preload=False).stdout == f"{library}\n"
    result = run(venv / "bin" / "gpufeed", "run", "--", "env", preload=False)
    assert f"LD_PRELOAD={library}\n" in result.stdout and result.stderr == ""
    version = run(venv / "bin" / "python", "-m", "gpufeed", "--version", preload=False)
    assert version.stdout.startswith("gpufeed "), version.stderr
    if (BUILD / "src" / "tools" / "gpufeed-stacks").exists():
        assert "python" in run(venv / "bin" / "gpufeed", "stacks", os.getpid(), preload=False).stdout


def test_program_starts_as_if_no_python_had_run(venv, run):
    show = ("grep", "-h", "^SigIgn\\|^SigBlk", "/proc/self/status")
    direct = run("env", "LC_ALL=", "LANG=C", *show, preload=False)
    through = run(venv / "bin" / "gpufeed", "run", "--", *show, preload=False, LC_ALL="", LANG="C")
    assert through.stdout == direct.stdout
    environment = run(venv / "bin" / "gpufeed", "run", "--", "env", preload=False, LC_ALL="", LANG="C").stdout
    assert "LC_CTYPE=" not in environment or "LC_CTYPE" in os.environ


def test_wheel_feeds_a_gpu(venv, run, tmp_path):
    report = tmp_path / "report.json"
    result = run(venv / "bin" / "gpufeed", "run", f"--report={report}", "--", venv / "bin" / "python", "-c", JOB,
                 preload=False, input="\n", LD_LIBRARY_PATH=SIM_DIR)
    assert is_bound(result) and '"schema"' in report.read_text()
    active = run(venv / "bin" / "gpufeed", "run", "--", venv / "bin" / "python", "-c",
                 "import gpufeed; print(gpufeed.version())", preload=False)
    assert re.match(r"\d+\.\d+", active.stdout)


def test_path_that_ld_preload_cannot_hold(blank, run, tmp_path):
    command = blank / "bin" / "gpufeed"
    refused = run(command, "preload-path", preload=False, PYTHONPATH=blank)
    assert refused.returncode == 1 and refused.stdout == ""
    assert "cannot hold a path with a blank, a colon or a dollar sign" in refused.stderr
    assert refused.stderr.count("\n") == 1
    without = run(command, "run", "--", sys.executable, "-c", JOB, preload=False, input="\n", PYTHONPATH=blank,
                  LD_LIBRARY_PATH=SIM_DIR)
    assert not is_bound(without) and "preload-path" in without.stderr
    # Runs the command that the message suggests, with another path for the link.
    link = tmp_path / "link"
    script = re.search(r"ln -s .*(?=, and use)", refused.stderr)[0].replace("/opt/gpufeed", str(link))
    subprocess.run(script, shell=True, check=True)
    found = run(link / "bin" / "gpufeed", "preload-path", preload=False)
    assert found.stdout == f"{link}/lib/libgpufeed.so\n", found.stderr
    helped = run(link / "bin" / "gpufeed", "run", "--", sys.executable, "-c", JOB, preload=False, input="\n",
                 LD_LIBRARY_PATH=SIM_DIR)
    assert is_bound(helped)


@pytest.mark.parametrize("name", ["a:b", "a$b"])
def test_other_characters_that_ld_preload_cannot_hold(name, blank, run, tmp_path):
    subprocess.run(["cp", "-r", blank / "gpufeed" / "_bundle", tmp_path / name], check=True)
    refused = run(tmp_path / name / "bin" / "gpufeed", "preload-path", preload=False)
    assert refused.returncode == 1 and re.search(rf"{re.escape(name)}'? /opt/gpufeed", refused.stderr), refused.stderr


def test_target_folder(blank, run):
    version = run(sys.executable, "-m", "gpufeed", "--version", preload=False, PYTHONPATH=blank)
    assert version.stdout.startswith("gpufeed ")
    direct = run(blank / "gpufeed" / "_bundle" / "bin" / "gpufeed", "--version", preload=False)
    assert direct.stdout == version.stdout


def make_prefix(folder):
    """Makes a prefix like conda's: an interpreter in bin with its library beside it, and no pyvenv.cfg."""
    version = "python%d.%d" % sys.version_info[:2]
    library = folder / "lib" / version
    for needed in (folder / "bin", library / "site-packages"):
        needed.mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), folder / "bin" / version)
    (folder / "bin" / "python3").symlink_to(version)
    for path in pathlib.Path(os.__file__).parent.iterdir():
        if not path.name.endswith("-packages") and path.name != "EXTERNALLY-MANAGED":
            (library / path.name).symlink_to(path)
    return folder / "bin" / "python3"


def test_prefix_without_activation(wheel, run, tmp_path):
    """As in `conda run` or a job script: the prefix is not in PATH, and no variable names it."""
    prefix = tmp_path / "prefix"
    python = make_prefix(prefix)
    before = set(prefix.rglob("*"))
    pip("install", "--no-index", "--prefix", prefix, wheel, python=python)
    command, = [path for path in prefix.rglob("bin/gpufeed") if "_bundle" not in path.parts]
    library, = prefix.rglob("libgpufeed.so")
    clean = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(command, "preload-path", preload=False, **clean).stdout == f"{library}\n"
    job = run(command, "run", "--", python, "-c", "import gpufeed\n" + JOB, preload=False, input="\n",
              LD_LIBRARY_PATH=SIM_DIR, **clean)
    assert is_bound(job)
    pip("uninstall", "--yes", "gpufeed", python=python)
    assert [path for path in set(prefix.rglob("*")) - before if not path.is_dir()] == []


def test_from_nothing(wheel, run, tmp_path):
    """The script that also runs on bare machines with a GPU (docs/install.md)."""
    tried = run(SOURCE / "scripts" / "try-wheel.sh", wheel, tmp_path, preload=False, LD_LIBRARY_PATH=SIM_DIR,
                SIM_PAGEABLE_MBPS=1000, SIM_LINK_MBPS=50000, GPUFEED_STAGE_THREADS=4)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "copies to the GPU     400 MiB" in tried.stdout and "removal: no file is left" in tried.stdout
    assert not list(tmp_path.iterdir())


def test_command_says_why_it_cannot_run(blank, run, tmp_path):
    subprocess.run(["cp", "-r", blank / "gpufeed", tmp_path], check=True)
    command = tmp_path / "gpufeed" / "_bundle" / "bin" / "gpufeed"
    command.chmod(0o644)  # execve then fails as on a file system mounted noexec
    result = run(sys.executable, "-m", "gpufeed", "--version", preload=False, PYTHONPATH=tmp_path)
    assert result.returncode == 126 and "noexec" in result.stderr and result.stderr.count("\n") == 1
    command.unlink()
    result = run(sys.executable, "-m", "gpufeed", "--version", preload=False, PYTHONPATH=tmp_path)
    assert result.returncode == 126 and "install the wheel again" in result.stderr


@contextlib.contextmanager
def started_job(env):
    with subprocess.Popen([sys.executable, "-c", JOB], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as job:
        assert job.stdout.readline() == "started\n"
        yield job


def finish(job):
    output, errors = job.communicate("\n", timeout=60)
    assert (job.returncode, output) == (0, "0 0\n"), errors
    return errors


def test_upgrade_and_uninstall_under_running_jobs(wheel, run, tmp_path):
    venv = install_into_venv(tmp_path / "v", wheel)
    library = next(venv.rglob("libgpufeed.so"))
    env = run.env(preload=False, LD_PRELOAD=library, GPUFEED_VERBOSE=1, LD_LIBRARY_PATH=SIM_DIR)
    with started_job(env) as first, started_job(env) as second:
        pip("install", "--no-index", "--force-reinstall", wheel, python=venv / "bin" / "python")
        assert BOUND.search(finish(first))
        pip("uninstall", "--yes", "gpufeed", python=venv / "bin" / "python")
        errors = finish(second)
    assert "copies, pinned memory and placement are off" in errors and errors.count("\n") == 1
    assert not list(venv.rglob("*gpufeed*"))
    # LD_PRELOAD now names a missing file. The loader prints that, and programs run.
    stale = run("/bin/echo", "runs", preload=False, LD_PRELOAD=library)
    assert (stale.returncode, stale.stdout) == (0, "runs\n") and "cannot be preloaded" in stale.stderr
