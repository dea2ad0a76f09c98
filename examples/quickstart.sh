#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs the main job under the library, and shows its report. Arguments go to the job:
# with a GPU and PyTorch a training loop, elsewhere a feeding loop on a simulated driver, with this machine's CPUs taken
# as two NUMA nodes.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/packages.sh build
[ -f build/build.ninja ] || meson setup build
meson compile -C build
gpufeed=build/src/cli/gpufeed
report=$PWD/build/quickstart.json
rm -f "$report"

torch_python() { # prints a Python whose PyTorch sees a GPU
    local python
    command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || return 1
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
            echo "$python"
            return 0
        fi
    done
    return 1
}

"$gpufeed" topo
echo
if python=$(torch_python); then
    "$gpufeed" run --report="$report" -- "$python" examples/train.py "$@"
else
    echo "No GPU with PyTorch was found: using a simulated driver, and this machine's CPUs as two NUMA nodes."
    flags=()
    if python3 tests/machines/make.py build/quickstart halves; then
        flags=(--machine="$PWD/build/quickstart/halves" --bind=node)
    fi
    LD_LIBRARY_PATH=$PWD/build/tests/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        "$gpufeed" run --report="$report" "${flags[@]}" -- python3 examples/feed.py "$@"
fi

echo
echo "From the report, $report:"
python3 - "$report" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
for part in ("gpus", "verdict", "binding", "locality", "heap"):
    if part in report:
        print(f"{part}: {json.dumps(report[part], indent=2)}")
PYTHON
