# SPDX-License-Identifier: Apache-2.0
"""A build refuses an engine of another build (src/abi/engine_api.h), and an untested
jemalloc."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from conftest import BUILD
from preloadkit import SOURCE

MEETING = ["options", "startup_env", "cuda", "heap_ops", "transfer_ops", "stall_count", "stall_gpu", "journal_count", "hook_counts", "latency",
           "copy_call", "nodes", "pystack_frame", "range", "heap_stats", "heap_setting", "heap_huge", "heap_first_touch", "heap_retained"]
INCLUDED = re.compile(r'^ *#include "([^"]+)"', re.M)


def abi_hash(paths):
    printed = subprocess.run([SOURCE / "scripts" / "abi_hash.py", *paths], stdout=subprocess.PIPE, text=True, check=True)
    return re.search(r"GF_ENGINE_ABI UINT32_C\((0x[0-9a-f]{8})\)", printed.stdout)[1]


def contract():
    """The headers whose hash the build uses, in its order."""
    rule = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", "src/abi_hash.h"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    command = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "src/abi_hash.h"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
    named = [word for word in command.split() if word.endswith((".h", ".def")) and not word.endswith("abi_hash.h")]
    assert named and all(name in rule for name in named)
    return [(BUILD / name).resolve() for name in named]


def test_the_build_uses_the_hash_of_its_headers():
    assert abi_hash(contract()) in (BUILD / "src" / "abi_hash.h").read_text()


def test_each_shared_struct_is_in_a_hashed_header():
    """The hash also covers structs that one product writes into the other's memory. If only the preload library had a
    further cause, it would write beyond the engine's array."""
    text = "".join(path.read_text() for path in contract())
    for name in MEETING:
        assert f"\nstruct gf_{name} {{\n" in text, name
    assert "GF_CAUSE_COUNT,\n" in text


def test_hashed_headers_include_hashed_headers():
    src = SOURCE / "src"
    hashed = set(contract()) | {src / "base" / name for name in ("base.h", "atomic.h")}  # attributes and macros
    for path in contract():
        for other in INCLUDED.findall(path.read_text()):
            assert src / other in hashed, f"{path} includes {other}"


def test_each_byte_of_the_contract_counts(tmp_path):
    paths = contract()
    ours = abi_hash(paths)
    for at, path in enumerate(paths):
        changed = tmp_path / path.name
        changed.write_bytes(path.read_bytes().replace(b";", b"; ", 1) if b";" in path.read_bytes() else path.read_bytes() + b"\n")
        assert abi_hash([*paths[:at], changed, *paths[at + 1:]]) != ours, path


JEMALLOC_SYMS = SOURCE / "src" / "preload" / "heap" / "jemalloc.syms"
CROSS = """
[binaries]
c = 'cc'
ar = 'ar'
nm = 'nm'
objcopy = 'objcopy'
pkgconfig = 'pkg-config'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
"""


def jemalloc_archive():
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    given = next(option["value"] for option in options if option["name"] == "jemalloc")
    folder = subprocess.run(["pkg-config", "--variable=libdir", "jemalloc"], stdout=subprocess.PIPE, text=True, check=not given)
    return pathlib.Path(given or folder.stdout.strip() + "/libjemalloc_pic.a")


def jemalloc_tested():
    return [line.split()[1] for line in JEMALLOC_SYMS.read_text().splitlines() if line.startswith("version ")]


@pytest.fixture(name="other_version")
def doctored_archive(tmp_path):
    """Returns this build's archive, changed so that it reports the next release."""
    data, target = jemalloc_archive().read_bytes(), tmp_path / "libjemalloc_pic.a"
    tested = [version.encode() for version in jemalloc_tested() if version.encode() in data]
    assert len(tested) == 1
    target.write_bytes(data.replace(tested[0], b"9" + tested[0][1:]))
    return target


def configure(tmp_path, archive, *words):
    return subprocess.run(["meson", "setup", tmp_path / "build", SOURCE, "-Dengine=false", "-Dtests=false", f"-Djemalloc={archive}",
                           *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.mark.parametrize("cross", [False, True])
def test_another_jemalloc_is_refused_when_configuring(other_version, tmp_path, cross):
    """The version comes from the archive, even if its page size is given. If the archive cannot be
    run, the version is read from the file."""
    (tmp_path / "cross.ini").write_text(CROSS)
    words = ["-Djemalloc_page=4096", *(["--cross-file", tmp_path / "cross.ini"] if cross else [])]
    other = configure(tmp_path, other_version, *words)
    tested = jemalloc_tested()
    assert other.returncode != 0
    for text in (f"is jemalloc 9{tested[0][1:]}. ", ", ".join(tested), "Set -Djemalloc", "docs/heap.md"):
        assert text in other.stdout
    assert configure(tmp_path, jemalloc_archive(), *words).returncode == 0


@pytest.mark.parametrize("cross", [False, True])
def test_no_jemalloc_is_refused_when_configuring(tmp_path, cross):
    """A cross build refuses an archive whose page size it cannot determine."""
    (tmp_path / "cross.ini").write_text(CROSS)
    words = ["-Djemalloc_page=4096", "--cross-file", tmp_path / "cross.ini"] if cross else []
    (tmp_path / "libjemalloc_pic.a").write_bytes(b"!<arch>\n")
    empty = configure(tmp_path, tmp_path / "libjemalloc_pic.a", *words)
    assert empty.returncode != 0 and "is jemalloc of unknown version, or missing. " in empty.stdout
    if cross:
        unknown = configure(tmp_path, jemalloc_archive(), "--cross-file", tmp_path / "cross.ini")
        assert unknown.returncode != 0 and "set -Djemalloc_page" in unknown.stdout


def embed(archive, syms, out):
    return subprocess.run([SOURCE / "scripts" / "embed-jemalloc.sh", archive, syms, out], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}, check=False)


def test_another_jemalloc_is_refused_when_building(other_version, tmp_path):
    """The build also checks the archive, which may have been replaced after configuring."""
    out = tmp_path / "out.a"
    other = embed(other_version, JEMALLOC_SYMS, out)
    assert other.returncode != 0 and jemalloc_tested()[0] in other.stderr and not out.exists()
    lacking = tmp_path / "lacking.syms"
    lacking.write_text(JEMALLOC_SYMS.read_text() + "have je_of_no_release\n")
    symbol = embed(jemalloc_archive(), lacking, out)
    assert symbol.returncode != 0 and symbol.stderr.split("\n")[0].endswith(": je_of_no_release") and not out.exists()
    assert embed(jemalloc_archive(), JEMALLOC_SYMS, out).returncode == 0 and out.exists()
