#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds with warnings as errors, and runs all tests. The last line is "N
# passed, N failed, N skipped"; before it stand the failed cases, one a line, and the reasons for skips. Arguments go to `meson
# test`: tests/run.sh --suite unit. The suite "full" runs only if it is named. "--foreign [SUITE...]" runs
# the suites of other projects (tests/foreign) instead. tests/changed.sh runs what a change needs. Lines that begin with "=="
# say after how many seconds each phase began.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

foreign=()
[ "${1:-}" = --foreign ] && foreign=(--foreign)
scripts/packages.sh "${foreign[@]}"
if [ ! -f build/build.ninja ]; then
    meson setup build -Dwerror=true || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
fi
phase() {
    echo "== $SECONDS s: $1"
}
beside='' machines='' sanitizers=''
stop() { # what still runs beside the script
    for group in $beside; do kill -- "-$group" || kill "$group"; done
    for process in $machines $sanitizers; do kill "$process"; done
} 2>/dev/null
trap stop EXIT
if ((!$#)); then
    # The other builds, and tests that only compile or read code, take the CPU time that the build and the tests leave.
    setsid tests/lint/idle.sh sh -c 'tests/sanitize.sh --build; tests/aarch64.sh --build' &
    beside=$!
fi
phase build
if ! meson compile -C build; then
    echo "the build failed"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
[ ${#foreign[@]} -eq 0 ] || exec /usr/bin/python3 tests/foreign/run.py --build build "${@:2}"

rm -rf build/junit build/meson-logs/testlog*
builds=(build)
run() { # log, number of processes, arguments
    meson test -C build --no-rebuild --logbase "$1" --num-processes "$2" --print-errorlogs "${@:3}"
}
status=0
# Most tests sleep more than half of their time, so more tests than there are CPUs run at the same time.
many=$(($(nproc) * 3))
if (($#)); then
    run testlog "$many" "$@" || status=1
else
    touch build/meson-logs/testlog-{unit,alone,compilers,machines}.json # tests/count.py complains of a log without results
    phase "unit tests"
    run testlog-unit "$many" --suite unit --suite fuzz || status=1
    run testlog-alone 1 --suite alone || status=1
    # The virtual machines run one after another, and leave a CPU to the builds, and then to the builds' tests.
    phase "virtual machines"
    run testlog-machines 1 --suite numa &
    machines=$!
    wait "$beside"
    phase "tests of the other builds"
    setsid tests/lint/idle.sh meson test -C build --no-rebuild --logbase testlog-compilers --num-processes 2 \
        --print-errorlogs --suite compilers &
    beside=$!
    # The other builds have their own build folders and results. Their tests run side by side.
    rm -f build-asan/meson-logs/testlog* build-tsan/meson-logs/testlog*
    tests/sanitize.sh address thread &
    sanitizers=$!
    builds+=(build-asan build-tsan)
    tests/aarch64.sh
    # 77: this machine has no cross compiler, or cannot fetch arm64's packages; the script has
    # printed that.
    [ $? -eq 77 ] || builds+=(build-aarch64)
    wait "$sanitizers"
    wait "$machines" || status=1
    sanitizers='' machines=''
    phase "all other tests"
    run testlog "$many" --no-suite full --no-suite numa --no-suite compilers --no-suite unit --no-suite fuzz --no-suite alone || status=1
    phase "what still compiles"
    wait "$beside" || status=1
    beside=''
    phase end
fi
((status == 0)) || tests/again.py build
exec tests/count.py "${builds[@]}"
