#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the layers with a sanitizer, and runs unit tests and fuzz corpora on them: sanitize.sh
# [--build] [address] [thread]. With --build, runs nothing.
#
# A preloaded library cannot carry a sanitizer, whose run-time must come first in the process. So
# the layers are tested as static libraries. Results: build-asan, build-tsan.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

sanitize() { # folder, value of b_sanitize, optimization
    # Reports need line numbers alone. A sanitizer sees more accesses with less optimization, and building takes
    # less time. ThreadSanitizer's tests would take as much more.
    [ -f "$1/build.ninja" ] || meson setup "$1" -Db_sanitize="$2" -Db_lundef=false \
        -Dbuildtype=debugoptimized -Doptimization="$3" -Dc_args=-g1 >/dev/null || return 1
    rm -f "$1/meson-logs/testlog.junit.xml"
    ninja -C "$1" --quiet build.ninja || return 1 # what is asked below must not be of yesterday
    # Builds only these tests and their input. Preloaded libraries are not built.
    local targets
    mapfile -t targets < <(tests/targets.py "$1" unit fuzz)
    ((${#targets[@]})) || return 1
    ninja -C "$1" --quiet "${targets[@]}" || return 1
    ((only_build)) && return
    # A published environ is never freed, because another thread may be reading it.
    export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1
    meson test -C "$1" --no-rebuild --suite unit --suite fuzz --print-errorlogs --timeout-multiplier 4 ||
        tests/again.py "$1" --suite unit --suite fuzz --timeout-multiplier 4
}

status=0 only_build=0
if [ "${1:-}" = --build ]; then
    only_build=1
    shift
fi
(($#)) || set -- address thread
for kind; do
    case $kind in
    address) sanitize build-asan address,undefined 0 || status=1 ;;
    thread) sanitize build-tsan thread 1 || status=1 ;;
    *)
        echo "sanitize.sh knows address and thread, not $kind" >&2
        exit 2
        ;;
    esac
done
exit "$status"
