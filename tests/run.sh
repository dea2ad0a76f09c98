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
if ((${#wanted[@]} == 0)); then
    wanted=(--no-suite full)
    # The sanitizer builds have their own build folders and results.
    rm -rf build-asan/meson-logs build-tsan/meson-logs
    tests/sanitize.sh address thread || true
    builds+=(build-asan build-tsan)
    tests/aarch64.sh
    # 77: this machine has no cross compiler, or cannot fetch arm64's packages; the script has
    # printed that.
    [ $? -eq 77 ] || builds+=(build-aarch64)
fi
# Many tests sleep, so one more test than there are CPUs runs at the same time, and one that compiles.
meson test -C build --num-processes "$(($(nproc) + 2))" --print-errorlogs "${wanted[@]}" || tests/again.py build
exec tests/count.py "${builds[@]}"
