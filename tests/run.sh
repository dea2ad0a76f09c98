#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds with warnings as errors, and runs all tests. The last line is "N
# passed, N failed, N skipped"; the line before gives the reasons for skips. Arguments go to `meson
# test`: tests/run.sh --suite unit. The suite "full" runs only if it is named. "--foreign [SUITE...]" runs
# the suites of other projects (tests/foreign) instead.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

foreign=()
[ "${1:-}" = --foreign ] && foreign=(--foreign)
scripts/packages.sh "${foreign[@]}"
if [ ! -f build/build.ninja ]; then
    meson setup build -Dwerror=true || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
fi
if ! meson compile -C build; then
    echo "the build failed"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
[ ${#foreign[@]} -eq 0 ] || exec /usr/bin/python3 tests/foreign/run.py --build build "${@:2}"

rm -rf build/junit build/meson-logs/testlog*
builds=(build)
wanted=("$@")
everything=$(($# == 0))
if ((everything)); then
    wanted=(--no-suite full --no-suite numa --no-suite compilers)
    # The sanitizer builds have their own build folders and results.
    rm -rf build-asan/meson-logs build-tsan/meson-logs
    tests/sanitize.sh address thread || true
    builds+=(build-asan build-tsan)
    tests/aarch64.sh
    # 77: this machine has no cross compiler, or cannot fetch arm64's packages; the script has
    # printed that.
    [ $? -eq 77 ] || builds+=(build-aarch64)
fi
run() { # log, number of processes, arguments
    : >"build/meson-logs/$1.json" # if meson writes nothing into it, tests/count.py says so
    meson test -C build --no-rebuild --logbase "$1" --num-processes "$2" --print-errorlogs "${@:3}"
}
status=0
if ((everything)); then
    # The virtual machines run one after another, and leave CPU time to the compilers.
    run testlog-compilers 2 --suite compilers &
    compilers=$!
    run testlog-machines 1 --suite numa || status=1
fi
# Many tests sleep, so more tests than there are CPUs run at the same time.
run testlog "$(($(nproc) + 2))" "${wanted[@]}" || status=1
((everything == 0)) || wait "$compilers" || status=1
((status == 0)) || tests/again.py build
exec tests/count.py "${builds[@]}"
