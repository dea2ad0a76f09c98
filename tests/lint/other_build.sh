#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the whole tree with other options, with warnings as errors: other_build.sh SOURCE FOLDER CC
# [meson option...]
set -euo pipefail
source=$1 folder=$2 cc=$3
shift 3
command -v "$cc" >/dev/null || { echo "$cc is not installed"; exit 77; }
[ -f "$folder/build.ninja" ] ||
    CC=$cc meson setup "$folder" "$source" -Dwerror=true -Dbuildtype=debugoptimized "$@"
ninja -C "$folder"
