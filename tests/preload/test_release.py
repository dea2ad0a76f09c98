# SPDX-License-Identifier: Apache-2.0
"""Checks the SBOM and, with RELEASE=1 (suite full), all files that scripts/release.sh makes."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, SOURCE

pytestmark = pytest.mark.usefixtures("installs")


def tool(*words, **kw):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **kw).stdout


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "gpufeed"
    tool(SOURCE / "scripts" / "bundle.sh", BUILD, folder, "2.34")
    return folder


def test_sbom_names_every_file_and_library(bundle):
    made = tool(SOURCE / "scripts" / "sbom.py", bundle, "1.2.3")
    assert made == tool(SOURCE / "scripts" / "sbom.py", bundle, "1.2.3")
    sbom = json.loads(made)
    assert (sbom["spdxVersion"], sbom["dataLicense"], sbom["SPDXID"]) == ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["creationInfo"]["created"])
    sums = {file["fileName"]: {c["algorithm"]: c["checksumValue"] for c in file["checksums"]} for file in sbom["files"]}
    real = {f"./{path.relative_to(bundle)}": hashlib.sha256(path.read_bytes()).hexdigest()
            for path in bundle.rglob("*") if path.is_file()}
    assert {name: both["SHA256"] for name, both in sums.items()} == real
    known = {element["SPDXID"] for element in [sbom, *sbom["packages"], *sbom["files"]]}
    assert len(known) == 1 + len(sbom["packages"]) + len(sbom["files"])
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in known)
    for relation in sbom["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= known
    # Each library inside has a package, with the version that this machine has.
    libraries = {path.name for path in (bundle / "lib").glob("libgf*.so")} - {"libgfenv.so"}
    linked = 2 * (bundle / "bin" / "gpufeed-stacks").is_file()  # libunwind and xz
    assert libraries == {"libgfhwloc.so", "libgfnuma.so"} and len(sbom["packages"]) == 5 + linked  # jemalloc and jansson are inside
    assert all(re.match(r"\d", package["versionInfo"]) for package in sbom["packages"])


@pytest.mark.skipif(not os.environ.get("RELEASE"), reason="RELEASE=1 builds all packages twice")
def test_release_is_complete_and_its_sums_hold(tmp_path):
    tree, output = tmp_path / "tree", tmp_path / "release"
    tool("git", "clone", "-q", SOURCE, tree)
    subprocess.run([tree / "scripts" / "release.sh", output], check=True)
    names = {path.name for path in output.iterdir()}
    for form in (r"gpufeed-[\d.]+\.tar\.gz", r"gpufeed-.*\.whl", r"gpufeed-.*-bundle-x86_64\.tar\.gz", r"gpufeed-.*\.spdx\.json",
                 r"gpufeed_.*\.deb", r"libgpufeed_.*\.deb", r"libgpufeed-engine_.*\.deb", r"libgpufeed-dev_.*\.deb",
                 "SHA256SUMS", "licenses"):
        assert [name for name in names if re.fullmatch(form, name)], (form, names)
    tool("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=output)
    again = subprocess.run([tree / "scripts" / "release.sh", output], check=False, capture_output=True, text=True)
    assert again.returncode == 1 and "is not empty" in again.stderr


@pytest.mark.skipif(not os.environ.get("RELEASE") or not shutil.which("dh"), reason="RELEASE=1 builds the packages")
def test_installed_package_finds_its_library(tmp_path, run):
    tool(SOURCE / "scripts" / "deb.sh", tmp_path)
    for package in tmp_path.glob("*.deb"):
        tool("dpkg-deb", "-x", package, tmp_path / "root")
    command = tmp_path / "root" / "usr" / "bin" / "gpufeed"
    library = tmp_path / "root" / "usr" / "lib" / "gpufeed" / "libgpufeed.so"
    assert run(command, "preload-path", preload=False).stdout == f"{library}\n"
    assert run(command, "topo", preload=False).returncode == 0
    module = run(sys.executable, "-m", "gpufeed", "--version", preload=False,
                 PYTHONPATH=tmp_path / "root" / "usr" / "share" / "gpufeed" / "python")
    assert module.stdout.startswith("gpufeed ")
