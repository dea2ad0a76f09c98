#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the door exports is what hooks.def lists, no more, no less, unversioned. exports.sh LIB HOOKS.DEF
set -eu
library=$1 list=$2
wanted=$(mktemp) found=$(mktemp)
trap 'rm -f "$wanted" "$found"' EXIT

sed -nE 's/^GF_(CU|LIBC|MALLOC|API)\(([A-Za-z0-9_]+)\)$/\2/p' "$list" | LC_ALL=C sort >"$wanted"
nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort >"$found"
[ -s "$wanted" ] || { echo "no rows in $list" >&2; exit 1; }
diff -u "$wanted" "$found" || { echo "exports (+) and hooks.def (-) differ" >&2; exit 1; }
