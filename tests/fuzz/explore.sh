#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lets libFuzzer search for inputs that break a parser: explore.sh [SECONDS per target]. Inputs that
# it finds are left as crash-* in build-fuzz. Once the bug is fixed, the input becomes a file of the
# target's corpus.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang >/dev/null || { echo "clang is not installed" >&2; exit 77; }
mkdir -p build-fuzz/new

for target in tests/fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    name=${name#fuzz_}
    sources=(src/base/cpus.c src/base/fmt.c src/base/parse.c src/config/options.c src/config/suggest.c)
    case $name in
    hint) sources+=(src/engine/place/hint.c) ;;
    host) sources+=(src/os/{cgroup,headroom,pressure,procfs}.c) ;;
    elf) sources+=(src/cli/report/elfsym.c) ;;
    log) sources+=(src/cli/report/cmd_report.c src/cli/report/elfsym.c -ljansson) ;;
    dwarf) sources+=(src/preload/trace/unwind/dwarf.c src/preload/trace/unwind/dwarf_value.c) ;;
    json | path) sources+=("src/base/$name.c" src/base/safe_write.c) ;;
    esac
    clang -std=gnu17 -D_GNU_SOURCE -O1 -g -Isrc -fsanitize=fuzzer,address,undefined \
        -fno-sanitize-recover=all -Wno-pedantic "$target" "${sources[@]}" -o "build-fuzz/$name"
    mkdir -p "build-fuzz/new/$name"
    (cd build-fuzz && "./$name" -max_total_time="${1:-20}" -max_len=4096 -print_final_stats=0 -verbosity=0 \
        "new/$name" "../tests/fuzz/corpus/$name")
    echo "$name: nothing found"
done
