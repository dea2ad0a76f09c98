#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats all C files according to .clang-format.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i
