#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the layout of all files: layout.sh SOURCE GENERATED. The rules of files.py hold; C files are formatted by
# .clang-format (scripts/format.sh reformats them); shellcheck finds nothing in any script, nor in GENERATED.
set -euo pipefail
generated=$(realpath "$2")
cd "$1"
status=0
missing=0
python3 tests/lint/files.py . || status=1

if git rev-parse --git-dir >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files '*.c' '*.h')
else # an unpacked archive
    mapfile -t files < <(find src include tests bench -name '*.[ch]')
fi
if command -v clang-format >/dev/null; then
    clang-format --dry-run -Werror "${files[@]}" || status=1
else
    echo "clang-format is not installed"
    missing=77
fi

mapfile -t scripts < <(find .ci examples scripts tests bench -type f 2>/dev/null | while read -r file; do
    case $(head -n 1 "$file" | tr -d '\000' | head -c 32) in
    '#!'*python*) ;;
    '#!'*sh*) printf '%s\n' "$file" ;;
    esac
done)
if command -v shellcheck >/dev/null; then
    shellcheck --severity=warning "$generated" "${scripts[@]}" || status=1
else
    echo "shellcheck is not installed"
    missing=77
fi
exit $((status ? status : missing))
