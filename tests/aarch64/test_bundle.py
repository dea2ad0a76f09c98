# SPDX-License-Identifier: Apache-2.0
"""The wheel for aarch64 from the cross build: its tag, its files, and its programs under the emulator."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "preload"))
from conftest import BUILD, EMULATOR, SIM_DIR, compile_c, run  # noqa: E402,F401  pylint: disable=wrong-import-position

# Copies 64 MiB to the GPU and back, and compares.
JOB = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define DRIVER(name) ((int (*)())dlsym(cuda, #name))
int main(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
    unsigned long long device;
    size_t size = 64 << 20;
    char *host = malloc(size), *back = malloc(size);
    for (size_t i = 0; i < size; i++)
        host[i] = (char)(i * 31 >> 7);
    int error = DRIVER(cuInit)(0) | DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) | DRIVER(cuCtxSetCurrent)(context) |
                DRIVER(cuMemAlloc_v2)(&device, size);
    for (int i = 0; i < 4; i++) {
        memset(back, 0, size);
        error |= DRIVER(cuMemcpyHtoD_v2)(device, host, size) | DRIVER(cuMemcpyDtoH_v2)(back, device, size);
        error |= memcmp(host, back, size) != 0;
    }
    printf("%d\\n", error);
    return error;
}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("wheel_backend", SOURCE / "packaging" / "wheel_backend.py")
    backend = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(backend)
    folder = tmp_path_factory.mktemp("wheel")
    return folder / backend.build_wheel(folder, {"build": BUILD})


@pytest.fixture(scope="module")
def bundle(wheel, tmp_path_factory):
    """Installs the wheel as pip does on that processor, and returns its folder."""
    folder = tmp_path_factory.mktemp("installed")
    tag = re.search(r"py3-none-(.*)\.whl", wheel.name)[1]
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-index", "--no-deps",
                    "--only-binary=:all:", "--platform", tag, "--target", folder, wheel], check=True)
    return folder / "gpufeed" / "_bundle"


def test_every_file_is_for_aarch64(wheel):
    assert re.fullmatch(r"gpufeed-[\d.]+-py3-none-manylinux_2_34_aarch64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        binaries = {name: archive.read(name) for name in archive.namelist()
                    if archive.read(name)[:4] == b"\x7fELF"}
    assert {pathlib.Path(name).name for name in binaries} >= {
        "gpufeed", "libgpufeed.so", "libgpufeed-engine.so", "libgfhwloc.so", "libgfnuma.so"}
    assert {int.from_bytes(content[18:20], "little") for content in binaries.values()} == {183}


def test_command(bundle, run):  # noqa: F811  pylint: disable=redefined-outer-name
    assert run(bundle / "bin" / "gpufeed", "--version", preload=False).stdout.startswith("gpufeed ")
    assert run(bundle / "bin" / "gpufeed", "preload-path", preload=False).stdout == f"{bundle}/lib/libgpufeed.so\n"


def test_this_machine_can_be_read(bundle, run):  # noqa: F811  pylint: disable=redefined-outer-name
    """Tests that hwloc reads this machine's /sys, because recorded machines do not use that code."""
    told = run(bundle / "bin" / "gpufeed", "topo", preload=False)
    assert (told.returncode, told.stderr) == (0, "") and re.search(r"^node 0 +CPUs ", told.stdout, re.M)


@pytest.mark.parametrize("machine, expected", {"gh200_quad": 4, "gb200": 4, "grace": 2}.items())
def test_grace(machine, expected, bundle, run):  # noqa: F811  pylint: disable=redefined-outer-name
    recorded = BUILD / "tests" / "machines" / machine
    told = run(bundle / "bin" / "gpufeed", "topo", f"--machine={recorded}", preload=False).stdout
    assert told.count("memory of a GPU, not for host pages") == expected
    findings = json.loads(run(bundle / "bin" / "gpufeed", "doctor", "--json", f"--machine={recorded}", preload=False).stdout)
    assert "gpus" in {one["check"] for one in findings["findings"]}


def test_a_job(bundle, compile_c, run, tmp_path):  # noqa: F811  pylint: disable=redefined-outer-name
    """The engine of the bundle is opened, and the bytes of the copies are right."""
    report = tmp_path / "report.json"
    told = run(compile_c(JOB), preload=False, LD_PRELOAD=bundle / "lib" / "libgpufeed.so", LD_LIBRARY_PATH=SIM_DIR,
               GPUFEED_REPORT=report, GPUFEED_VERBOSE=1)
    assert (told.returncode, told.stdout) == (0, "0\n"), told.stderr
    assert "gpufeed: GPU 0" in told.stderr, told.stderr
    if not EMULATOR:  # qemu opens the folder of arm64's libraries as "/", so no report is written there
        assert json.loads(report.read_text(encoding="utf-8"))["schema"]
    assert EMULATOR or os.uname().machine == "aarch64"
