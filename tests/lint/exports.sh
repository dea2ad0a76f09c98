#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the preload library exports exactly the symbols of hooks.def and family.def,
# unversioned: exports.sh LIB HOOKS.DEF FAMILY.DEF CC...
set -eu
library=$1 hooks=$2 family=$3
shift 3
wanted=$(mktemp) found=$(mktemp)
trap 'rm -f "$wanted" "$found"' EXIT

listed() {
    "$@" | tr -s ' ' '\n' | sed '/^$/d' >"$found" # to a file: a reader that ends early would end the writer, too
    [ -s "$found" ] || { echo "no rows in the list" >&2; exit 1; }
    cat "$found" >>"$wanted"
}
listed "$@" -E -P -x c -D'GF_CU(symbol)=symbol' -D'GF_LIBC(symbol)=symbol' -D'GF_API(symbol)=symbol' "$hooks"
listed "$@" -E -P -x c -D'GF_FAMILY(name, type, parameters, arguments)=name' -D'GF_FAMILY_DERIVED(name)=name' \
    -D'GF_FAMILY_ALIAS(alias, name, type, parameters, arguments)=alias' "$family"
LC_ALL=C sort -o "$wanted" "$wanted"
nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort >"$found"
diff -u "$wanted" "$found" || { echo "exports (+) and the two lists (-) differ" >&2; exit 1; }
