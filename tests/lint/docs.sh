#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the documentation contains what the build generates from a list: docs.sh DOCUMENT
# GENERATED [--write]
#
# In DOCUMENT.md the text is between "<!-- NAME: written by tests/lint/docs.sh ... -->" and "<!--
# end of NAME -->", where NAME.md is the name of GENERATED. Any other DOCUMENT, such as a JSON
# schema, must equal the generated file.
set -eu
document=$1 generated=$2
[ -r "$generated" ] || { echo "$generated is missing: ninja -C build makes it" >&2; exit 1; }
name=$(basename "$generated" .md)
begin="<!-- $name: written by tests/lint/docs.sh " end="<!-- end of $name -->"

wanted=$(mktemp)
trap 'rm -f "$wanted"' EXIT
case $document in
*.md)
    for mark in "$begin" "$end"; do
        grep -qF -- "$mark" "$document" || { echo "$document lacks a line that begins with $mark" >&2; exit 1; }
    done
    awk -v begin="$begin" -v end="$end" -v file="$generated" '
        $0 == end { inside = 0 }
        !inside { print }
        index($0, begin) == 1 { inside = 1; while ((getline line < file) > 0) print line }
    ' "$document" >"$wanted"
    ;;
*) cat "$generated" >"$wanted" ;;
esac
if [ "${3-}" = --write ]; then
    cat "$wanted" >"$document"
elif ! diff -u "$document" "$wanted"; then
    echo "run: $(realpath "$0" "$document" "$generated" | tr '\n' ' ')--write" >&2
    exit 1
fi
