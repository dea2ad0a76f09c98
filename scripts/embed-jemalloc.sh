#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# embed-jemalloc.sh ARCHIVE SYMS OUT: makes the distribution's libjemalloc_pic.a private to another
# library. NM, OBJCOPY and AR name the tools of the target.
# - Public symbols are renamed to je_*, and calls that jemalloc.syms lists are redirected.
# - The operators new and delete are removed, so that libstdc++ is not needed.
# - The constructor is removed, so that jemalloc starts at its first call.
# - Code is aligned to cache lines, so that its speed does not depend on the code before it.
set -eu
archive=$1 syms=$2 out=$3
nm=${NM:-nm} objcopy=${OBJCOPY:-objcopy} ar=${AR:-ar}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$(realpath "$archive")
[ -f "$archive" ] || { echo "jemalloc: no $archive (libjemalloc-dev, or -Djemalloc=)" >&2; exit 1; }
(cd "$work" && "$ar" x "$archive")
rm -f "$work"/jemalloc_cpp*.o

"$nm" -g --defined-only "$work"/*.o | awk 'NF == 3 { print $3 }' | sort -u >"$work/defined"
"$nm" -u "$work"/*.o | awk 'NF == 2 { print $2 }' | sort -u >"$work/called"

grep -v '^je_' "$work/defined" | sed 's/.*/& je_&/' >"$work/rename"
clash=$(awk '{ print $2 }' "$work/rename" | sort | comm -12 - "$work/defined")
[ -z "$clash" ] || { echo "jemalloc: renaming clashes with its own $clash" >&2; exit 1; }

lacking=''
versions=''
known=''
while read -r kind name to; do
    case $kind in
    call)
        grep -qx "$name" "$work/called" || lacking="$lacking $name"
        echo "$name $to" >>"$work/rename" ;;
    may) echo "$name $to" >>"$work/rename" ;;
    wrap)
        grep -qx "$name" "$work/defined" && grep -qx "$name" "$work/called" ||
            lacking="$lacking $name" ;;
    have)
        grep -qx "$name" "$work/defined" || lacking="$lacking $name" ;;
    version)
        versions="$versions $name"
        ! grep -qaF "$name" "$archive" || known=$name ;;
    '' | '#'*) ;;
    *) echo "$syms: unknown line \"$kind $name\"" >&2; exit 1 ;;
    esac
done <"$syms"
[ -n "$known" ] || {
    echo "jemalloc: $archive has an unsupported version; supported:$versions" >&2
    exit 1
}
[ -z "$lacking" ] || {
    echo "jemalloc: $archive lacks, or does not call across objects:$lacking" >&2
    echo "jemalloc: it was configured differently from the tested ones (docs/heap.md)" >&2
    exit 1
}

for object in "$work"/*.o; do
    "$objcopy" --redefine-syms="$work/rename" --remove-section=.init_array \
        --remove-section=.rela.init_array --set-section-alignment=.text=64 "$object"
done
rm -f "$out"
"$ar" rcsD "$out" "$work"/*.o
