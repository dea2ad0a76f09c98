#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lets libFuzzer search for inputs that break a parser: explore.sh [SECONDS per target] [TARGET...].
# Inputs that it finds are left as crash-* in build-fuzz. Once the bug is fixed, the input becomes a
# file of the target's corpus.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang >/dev/null || { echo "clang is not installed" >&2; exit 77; }
seconds=${1:-20}
names=("${@:2}")
if ((${#names[@]} == 0)); then
    for target in tests/fuzz/fuzz_*.c; do
        name=$(basename "$target" .c)
        names+=("${name#fuzz_}")
    done
fi
flags=(-std=gnu17 -D_GNU_SOURCE -O1 -g -Isrc -Ibuild-fuzz/include "-fsanitize=address,undefined" -fno-sanitize-recover=all -Wno-pedantic
    "-DGF_VERSION=\"\"")

# All modules that the parsers may use are in an archive, so each target links only those that it needs.
rm -rf build-fuzz/objects build-fuzz/parsers.a
mkdir -p build-fuzz/objects build-fuzz/new build-fuzz/include
# hwloc leaks a list of some machines that it refuses.
echo leak:libhwloc >build-fuzz/leaks
# The private copy of hwloc opens no plugins; a leak of one that was closed cannot be named.
export HWLOC_PLUGINS_PATH=/nonexistent
export LSAN_OPTIONS=suppressions=$PWD/build-fuzz/leaks:print_suppressions=0
python3 scripts/embed_page.py src/tools/report/page.html >build-fuzz/include/page.h
for source in src/base/*.c src/config/*.c src/os/*.c src/host/*.c src/tools/{common,job,answer,report,doctor,topo,top}/*.c \
    src/tools/run/exec_target.c src/tools/stacks/objects.c src/preload/trace/dwarf*.c; do
    [[ $source == */generate* ]] && continue
    clang "${flags[@]}" -fsanitize=fuzzer-no-link -c "$source" -o "build-fuzz/objects/${source//\//-}.o"
done
ar cr build-fuzz/parsers.a build-fuzz/objects/*.o

for name in "${names[@]}"; do
    clang "${flags[@]}" -fsanitize=fuzzer "tests/fuzz/fuzz_$name.c" build-fuzz/parsers.a -ljansson -lhwloc -lnuma -o "build-fuzz/$name"
    mkdir -p "build-fuzz/new/$name"
    (cd build-fuzz && "./$name" -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 -verbosity=0 \
        "new/$name" "../tests/fuzz/corpus/$name" 2>"$name.log") ||
        { tail -40 "build-fuzz/$name.log" >&2; exit 1; }
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$name.log")
    echo "$name: nothing found in $seconds s, $runs runs"
done
