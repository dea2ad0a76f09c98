#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that all sources compile with the headers of other CUDA toolkits: cuda_versions.py SOURCE BUILD

The headers come from NVIDIA's Python wheels of the runtime, and are kept in the user's cache. The exit code is 77 if
they cannot be fetched."""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

WHEELS = {"11.8": "nvidia-cuda-runtime-cu11==11.8.89", "12.4": "nvidia-cuda-runtime-cu12==12.4.127",
          "12.8": "nvidia-cuda-runtime-cu12==12.8.90", "13.5": "nvidia-cuda-runtime==13.5.37"}
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gpufeed" / "cuda-versions"
KEPT = ("-I", "-D", "-std", "-W", "-f")


def fetch(version):
    """Returns the folder that has cuda.h, or None."""
    folder = CACHE / version
    if not any(folder.rglob("cuda.h")):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64", "--dest", folder,
                        WHEELS[version]], check=False)
        for wheel in folder.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(folder)
            wheel.unlink()
    return next((path.parent for path in folder.rglob("cuda.h")), None)


def readers(build):
    """Returns the sources that include CUDA's header by any way, as the compiler told ninja when it built them."""
    told = subprocess.run(["ninja", "-t", "deps"], cwd=build, capture_output=True, text=True, check=True).stdout
    groups = [[line.strip() for line in group.splitlines()[1:]] for group in told.split("\n\n")]
    return {(build / group[0]).resolve() for group in groups if any(name.endswith("/cuda.h") for name in group)}


def sources(src, build):
    """Returns [(file, flags)], each source once, of those that include CUDA's header."""
    found, wanted = {}, readers(build)
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = (build / entry["file"]).resolve()
        if path in wanted and path.is_relative_to(src) and path.suffix == ".c":
            found.setdefault(path, [word for word in shlex.split(entry["command"]) if word.startswith(KEPT)])
    return list(found.items())


def main():
    src, build = (pathlib.Path(sys.argv[1]) / "src").resolve(), pathlib.Path(sys.argv[2]).resolve()
    headers = {version: fetch(version) for version in WHEELS}
    if None in headers.values():
        print("cannot fetch the headers of", ", ".join(version for version, path in headers.items() if not path))
        return 77
    wanted = [(version, path, flags) for version in WHEELS for path, flags in sources(src, build)]

    def check(one):
        version, path, flags = one
        made = subprocess.run(["cc", "-fsyntax-only", "-fdiagnostics-color=never", *flags, "-Werror", "-isystem", headers[version], path], cwd=build,
                              capture_output=True, text=True, check=False)
        return made.returncode, made.stderr

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(zip(wanted, pool.map(check, wanted)))
    for (version, path, _), (code, errors) in results:
        if code:
            print(f"CUDA {version}, {path.relative_to(src)}:\n{errors}")
    bad = sum(code != 0 for _, (code, _) in results)
    print(f"{len(wanted) // len(WHEELS)} sources with CUDA {', '.join(WHEELS)}: {bad} do not compile")
    return 1 if bad or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
