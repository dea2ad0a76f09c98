#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs shellcheck on every script of the repository. shell.sh SOURCE GENERATED
set -eu
command -v shellcheck >/dev/null || { echo "shellcheck is not installed"; exit 77; }
generated=$(realpath "$2")
cd "$1"
find .ci examples scripts tests bench -type f 2>/dev/null | while read -r file; do
    case $(head -n 1 "$file" | tr -d '\000' | head -c 32) in
    '#!'*python*) ;;
    '#!'*sh*) printf '%s\n' "$file" ;;
    esac
done | xargs shellcheck --severity=warning "$generated"
