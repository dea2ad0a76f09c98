#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that all C files are formatted by .clang-format: format.sh SOURCE. scripts/format.sh
# reformats them.
set -euo pipefail
cd "$1"
command -v clang-format >/dev/null || { echo "clang-format is not installed"; exit 77; }
if git rev-parse --git-dir >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files '*.c' '*.h')
else # an unpacked archive
    mapfile -t files < <(find src include tests bench -name '*.[ch]')
fi
clang-format --dry-run -Werror "${files[@]}"
