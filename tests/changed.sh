#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, and runs the tests of what has changed since BASE: tests/changed.sh [BASE]. BASE is the commit at which this
# branch left main; on main it is HEAD, so that only uncommitted changes count. Each folder of src belongs to a room,
# whose tests run (tests/meson.build). A changed test runs by its name. The quick lints always run. Long tests do not,
# unless they changed; the last lines name those of the room.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-$(git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}
changed=$( (git diff --name-only "$base" -- && git ls-files --others --exclude-standard) | sort -u)
if [ -z "$changed" ]; then
    echo "nothing has changed since $base"
    exit
fi

declare -A suites names
everywhere=
while read -r file; do
    name=${file##*/test_}
    name=${name%.*}
    case $file in
    src/base/* | src/config/* | src/os/* | src/abi/* | include/* | meson.build) suites[base]=1 suites[unit]=1 everywhere=1 ;;
    src/host/* | src/tools/topo/* | tests/machines/*) suites[host]=1 ;;
    src/preload/heap/* | src/preload/malloc/*) suites[heap]=1 ;;
    src/preload/trace/*) suites[trace]=1 ;;
    src/preload/*) suites[hook]=1 ;;
    src/engine/transfer/*) suites[transfer]=1 ;;
    src/engine/gputime/*) suites[gputime]=1 ;;
    src/engine/*) suites[process]=1 ;;
    src/* | python/* | packaging/* | docs/gpufeed.1.in | examples/* | scripts/*) suites[tools]=1 ;;
    tests/unit/test_*.c) names[$name]=1 names[${name}_unit]=1 ;;
    tests/preload/test_*.py | tests/diff/test_*.py) names[$name]=1 ;;
    tests/hardening/test_*.py) names[hardening_$name]=1 ;;
    tests/fuzz/*) suites[fuzz]=1 ;;
    tests/unwind/*) suites[trace]=1 ;;
    tests/sim/*) names[sim]=1 names[conformance]=1 ;;
    tests/diff/*.c) names[$(basename "$file" .c)]=1 ;;
    tests/compat/* | tests/foreign/* | tests/lint/* | tests/*.* | bench/*) suites[lint]=1 ;;
    esac
done <<<"$changed"

if [ ! -f build/build.ninja ]; then
    meson setup build -Dwerror=true
fi
meson compile -C build

list() { # options of meson test; prints names
    meson test -C build --no-rebuild --list "$@" 2>/dev/null | sed -n 's|.* / ||p'
}
words=()
for suite in "${!suites[@]}"; do
    words+=(--suite "$suite")
done
mapfile -t known < <(list)
mapfile -t run < <(
    list --suite quick
    if [ ${#words[@]} -gt 0 ]; then
        list "${words[@]}" --no-suite long --no-suite compilers --no-suite full --no-suite diff
    fi
    for name in "${!names[@]}"; do
        if printf '%s\n' "${known[@]}" | grep -qx -- "$name"; then
            echo "$name"
        fi
    done)
mapfile -t run < <(printf '%s\n' "${run[@]}" | sort -u)
status=0
meson test -C build --no-rebuild --logbase testlog-changed --num-processes $(($(nproc) + 2)) --print-errorlogs "${run[@]}" || status=$?
echo "${#run[@]} tests of:${suites[*]+ ${!suites[*]}}${names[*]+ ${!names[*]}} quick; $SECONDS s with the build"
if [ ${#words[@]} -gt 0 ]; then
    mapfile -t left < <(list "${words[@]}" | sort -u | comm -13 <(printf '%s\n' "${run[@]}") - |
        comm -23 - <( (list --suite full; list --suite compilers) | sort -u))
    [ ${#left[@]} -eq 0 ] || echo "not run, because they are long: ${left[*]}"
fi
[ -z "${suites[transfer]:-}" ] || echo "before a push after a change in src/engine/transfer: meson test -C build --suite diff"
[ -z "$everywhere" ] || echo "every room uses what has changed: run tests/run.sh before a push"
exit $status
