#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs all tests and benches that need a real GPU, in stages. Each call ends within 8 minutes.
#
#   bench/device.sh STAGE...     without a name: host train split cost
#
# host train split cost    placement: the machine, programs unchanged, a recorded machine, the start
# random small copy        copies and pinned memory are what they are without the library: the random
#                          program, small ones, the conformance transcript and frameworks
# tools limits             what compute-sanitizer, CUPTI and profilers see; little memory, few CPUs
# h2d pinned feed          what copies, pinned memory and training cost, with every claim a check
# h2d_more                 what slows small copies, first copies, asynchronous ones, a busy GPU, ranks
# feed_last feed_more      training in channels_last; loading weights, tabular data, requests
# crowd                    eight ranks on one GPU, and workers that need every CPU: not slower
# suites                   PyTorch's and CuPy's own tests (tests/gpu/fetch_suites.sh brings them)
# reading                  the wheel in GF_WHEEL, and the commands that show a job
# ranks nccl               two GPUs; suites with GF_GPUS=2
#
# Wants the relocatable bundle in build/bundle/gpufeed (or GF_BUNDLE) and the programs next to it
# (`meson compile -C build bundle bench-bundle`), else the build folder, and a `python3` with PyTorch
# (CUDA) and torchvision. GF_DRY=1 runs what can be run small on the simulated driver. GF_SECONDS is
# the time for all stages, of which each has a share at most (GF_SHARE: another one). Details go to $OUT
# (default gpu-out): stages.log, table.txt, measured.jsonl (raw, for bench/results.py, which keeps a summary
# of each case in bench/) and gpu-logs.tar.gz with each run's output, reports and threads. A table comes last.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(host train split cost)
out=${OUT:-$PWD/gpu-out}
export OUT
OUT=$(mktemp -d)
budget=${GF_SECONDS:-460}
trap 'rm -rf "$OUT"' EXIT
mkdir -p "$out"
rm -f "$out/table.txt" "$out/stages.log"
export PYTHONDONTWRITEBYTECODE=1 CUBLAS_WORKSPACE_CONFIG=:4096:8

{
    uname -a
    ldd --version | head -1
    nproc
    command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=pci.bus_id,name,driver_version --format=csv
} > "$out/machine.txt" 2>&1

# The time limit of a stage in seconds, so that a stage that hangs leaves time for later ones.
most() {
    case $1 in
    small | tools | limits | nccl) echo 200 ;;
    random | copy | pinned | ranks | cost) echo 240 ;;
    h2d | h2d_more | feed_more | crowd) echo 330 ;;
    *) echo 500 ;; # host train split feed feed_last suites
    esac
}

for stage in "${stages[@]}"; do
    left=$((budget - SECONDS)) share=${GF_SHARE:-$(most "$stage")}
    [ "$left" -le "$share" ] || left=$share
    echo "== $stage ($left s left)"
    if [ ! -f "tests/gpu/stage_$stage.py" ]; then
        echo "CHECK FAIL $stage: no such stage" | tee -a "$out/table.txt"
        continue
    fi
    GF_STAGE_SECONDS=$left timeout -k 5 $((left > 10 ? left : 10)) \
        python3 "tests/gpu/stage_$stage.py" > "$OUT/$stage.log" 2>&1
    code=$?
    grep '^CHECK' "$OUT/$stage.log" >> "$out/table.txt"
    if ! grep -q '^END$' "$OUT/$stage.log"; then
        tail -n 25 "$OUT/$stage.log"
        echo "CHECK FAIL $stage: ended with $code before its last check" >> "$out/table.txt"
    fi
    grep -vE '^(CHECK|END)' "$OUT/$stage.log" | tail -n "${GF_TAIL:-25}"
    { echo "== $stage"; cat "$OUT/$stage.log"; } >> "$out/stages.log"
done

[ ! -f "$OUT/measured.jsonl" ] || cp "$OUT/measured.jsonl" "$out/"
# Omits large files until the archive is at most 15 MiB, so that it can be fetched from the GPU machine.
for largest in 64M 1M 100k; do
    find "$OUT" -type f -size "-$largest" -printf '%P\0' |
        tar -czf "$out/gpu-logs.tar.gz" -C "$OUT" --null -T -
    [ "$(stat -c %s "$out/gpu-logs.tar.gz")" -gt $((15 << 20)) ] || break
done
echo
sed 's/^CHECK //' "$out/table.txt"
echo "$(grep -c '^CHECK PASS' "$out/table.txt") passed, $(grep -c '^CHECK FAIL' "$out/table.txt") failed," \
     "$(grep -c '^CHECK SKIP' "$out/table.txt") skipped in $SECONDS s"
! grep -q '^CHECK FAIL' "$out/table.txt"
