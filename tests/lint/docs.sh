#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README's table of options is what options.def generates. docs.sh README GENERATED [--write]
set -eu
readme=$1 generated=$2
begin='<!-- options: written by tests/lint/docs.sh --write, from src/config/options.def -->'
end='<!-- end of options -->'

for mark in "$begin" "$end"; do
    grep -qxF -- "$mark" "$readme" || { echo "$readme lacks the line $mark" >&2; exit 1; }
done
wanted=$(mktemp)
trap 'rm -f "$wanted"' EXIT
awk -v begin="$begin" -v end="$end" -v file="$generated" '
    $0 == end { inside = 0 }
    !inside { print }
    $0 == begin { inside = 1; while ((getline line < file) > 0) print line }
' "$readme" >"$wanted"
if [ "${3-}" = --write ]; then
    cat "$wanted" >"$readme"
elif ! diff -u "$readme" "$wanted"; then
    echo "run: tests/lint/docs.sh README.md $generated --write" >&2
    exit 1
fi
