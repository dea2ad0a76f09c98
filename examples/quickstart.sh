#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds, and runs the same job twice: with GPUFEED=observe, where the library only reports, and
# with GPUFEED=on. Then compares the two reports. The job is a training loop if there is a GPU and PyTorch, and otherwise a
# feeding loop on a simulated driver. Arguments are passed to the job.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/packages.sh build
[ -f build/build.ninja ] || meson setup build
meson compile -C build
gpufeed=build/src/tools/gpufeed
reports=$PWD/build/quickstart
mkdir -p "$reports"
rm -f "$reports"/*.json

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

if python=$(torch_python); then
    # Batches in pageable memory, as in many scripts, because the library speeds up their copies.
    [ $# -gt 0 ] || set -- --pageable
    job=("$python" examples/train.py "$@")
else
    echo "No GPU with PyTorch was found: a simulated driver copies pageable memory at up to 1 GB/s, pinned memory at up to 50."
    export LD_LIBRARY_PATH=$PWD/build/tests/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export SIM_NAMES="simulated GPU" SIM_PAGEABLE_MBPS=1000 SIM_LINK_MBPS=50000
    # Sets four copy threads also on a machine with fewer CPUs, because with fewer threads not all copies are staged.
    export GPUFEED_STAGE_THREADS=${GPUFEED_STAGE_THREADS:-4}
    [ $# -gt 0 ] || set -- --batch-mib 8
    job=(python3 examples/feed.py "$@")
fi

export PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH} # for marks of steps
for mode in observe on; do
    GPUFEED=$mode "$gpufeed" run --verbose=0 --report="$reports/$mode.json" -- "${job[@]}" | sed "s/^/$mode: /"
done
echo
"$gpufeed" compare "$reports/observe.json" "$reports/on.json"
echo "For an interval: $gpufeed compare -- COMMAND. The reports are in $reports."
