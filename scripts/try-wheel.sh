#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# try-wheel.sh WHEEL [FOLDER]: installs a wheel from nothing, without a network, runs the quick start with it, and removes
# it. Works in a new folder inside FOLDER (/tmp). Prints the time of each step and the bytes. Fails if a step fails, or if
# the removal leaves a file. Without a GPU, LD_LIBRARY_PATH may name a folder with the simulated driver.
#
# It needs python3, of which a bare Ubuntu may lack the packages venv and pip. The first of these ways that works is used:
# a venv without pip, if the system's pip installs into other environments (since 22.3), because copying pip takes most of
# the time; venv with pip; pip --target; unpacking the wheel, which is a ZIP archive.
set -euo pipefail
wheel=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${2:-/tmp}/try-wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT
place=$work/environment
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

timed() { # NAME COMMAND...: prints the wall time; the command's output only on failure
    local name=$1 since=${EPOCHREALTIME/./}
    shift
    "$@" >"$work/log" 2>&1 || {
        echo "failed: $name: $*"
        cat "$work/log"
        exit 1
    }
    echo "$name: $(((${EPOCHREALTIME/./} - since) / 1000)) ms"
}

files() { # prints every file of the environment
    (cd "$place" && find . ! -type d | LC_ALL=C sort)
}

unpack() {
    python3 -m zipfile -e "$wheel" "$place"
    chmod +x "$place"/gpufeed/_bundle/bin/*
}

remove_unpacked() {
    rm -r "$place"/gpufeed "$place"/gpufeed-*
}

remove_target() { # pip does not uninstall from a target folder, which has no other package
    rm -r "${place:?}"/*
}

echo "system: $(sed -n 's/^PRETTY_NAME="\(.*\)"$/\1/p' /etc/os-release), Linux $(uname -r), $(ldd --version | sed -n 1p)"
echo "GPU: $({ nvidia-smi -L || echo "none"; } 2>/dev/null | sed -n 1p)"
echo "python: $(python3 --version)"
echo "wheel: $(stat -c %s "$wheel") bytes, all that is transferred"
mkdir "$place"
if python3 -c 'import venv' 2>/dev/null && python3 -m pip --python "$(command -v python3)" --version >/dev/null 2>&1; then
    timed "python3 -m venv --without-pip" python3 -m venv --without-pip "$place"
    files >"$work/before"
    timed "pip install" python3 -m pip --python "$place/bin/python3" install --no-index "$wheel"
    gpufeed=$place/bin/gpufeed python=$place/bin/python3
    remove=(python3 -m pip --python "$place/bin/python3" uninstall --yes gpufeed)
elif python3 -c 'import venv, ensurepip' 2>/dev/null; then
    timed "python3 -m venv" python3 -m venv "$place"
    files >"$work/before"
    timed "pip install" "$place/bin/pip" install --no-index "$wheel"
    gpufeed=$place/bin/gpufeed python=$place/bin/python3
    remove=("$place/bin/pip" uninstall --yes gpufeed)
elif python3 -m pip --version >/dev/null 2>&1; then
    files >"$work/before"
    timed "pip install --target" python3 -m pip install --no-index --target "$place" "$wheel"
    gpufeed=$place/gpufeed/_bundle/bin/gpufeed python=python3
    remove=(remove_target)
else
    files >"$work/before"
    timed "python3 -m zipfile" unpack
    gpufeed=$place/gpufeed/_bundle/bin/gpufeed python=python3
    remove=(remove_unpacked)
fi
files >"$work/after"
echo "installed: $(comm -13 "$work/before" "$work/after" | wc -l) files, $(du -sb "$place" | cut -f1) bytes with the environment"
timed "gpufeed --version" "$gpufeed" --version

for mode in observe on; do
    GPUFEED=$mode timed "quick start, GPUFEED=$mode" "$gpufeed" run --verbose=0 --report="$work/$mode.json" -- \
        "$python" "$root/examples/feed.py" --batch-mib 8
done
"$gpufeed" compare "$work/observe.json" "$work/on.json"
[ -s "$work/on.json" ]

timed "removal" "${remove[@]}"
files >"$work/after"
if ! diff "$work/before" "$work/after"; then
    echo "failed: the removal left files"
    exit 1
fi
echo "removal: no file is left, and $(find "$place" -mindepth 1 -type d -empty | wc -l) empty folders"
