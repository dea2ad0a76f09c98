#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh [SUITE...]: cross-builds for aarch64 and runs the suites (by default aarch64 and unit, for which it builds
# only what they need) under qemu's user emulation. tests/aarch64/exceptions.txt lists what qemu cannot run. Results:
# build-aarch64. Exit code 77 if this machine cannot run it. With --build, runs nothing.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$tool" >/dev/null || { echo "aarch64: no $tool" >&2; exit 77; }
done
packages=${GPUFEED_AARCH64_PACKAGES:-build-aarch64-packages}
if ! scripts/aarch64-packages.sh "$packages"; then
    echo "aarch64: cannot fetch arm64's packages" >&2
    exit 77
fi
[ -f build-aarch64/build.ninja ] ||
    meson setup build-aarch64 --cross-file cross/aarch64.ini --cross-file "$packages/packages.ini" \
        -Doptimization=1 -Ddebug=false >/dev/null || exit 1
only_build=0 targets=()
if [ "${1:-}" = --build ]; then
    only_build=1
    shift
fi
ninja -C build-aarch64 --quiet build.ninja || exit 1 # the targets that are asked below must not be of yesterday
if (($# == 0)); then
    set -- aarch64 unit
    mapfile -t targets < <(tests/targets.py build-aarch64 --installed "$@")
fi
ninja -C build-aarch64 --quiet "${targets[@]}" || exit 1
((only_build)) && exit 0
rm -rf build-aarch64/junit build-aarch64/meson-logs/testlog.junit.xml
meson test -C build-aarch64 --no-rebuild --print-errorlogs --timeout-multiplier 10 --num-processes "$(($(nproc) + 1))" \
    "${@/#/--suite=}" ||
    tests/again.py build-aarch64 --timeout-multiplier 10 "${@/#/--suite=}"
