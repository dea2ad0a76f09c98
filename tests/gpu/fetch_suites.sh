#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the test files that torch_tests.txt names where the stage `suites` finds them; git ignores them.
#
#   tests/gpu/fetch_suites.sh PYTORCH CUPY [FOLDER]      checkouts, of the versions that are installed
#                                                        where the stage runs, or - to leave one out;
#                                                        FOLDER: .suites
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
pytorch=${1:?the checkout of PyTorch} cupy=${2:?the checkout of CuPy} folder=${3:-$root/.suites}

rm -rf "$folder"
mkdir -p "$folder/torch" "$folder/cupy"
while IFS='|' read -r verb suite file _; do
    read -r verb <<<"$verb" || true
    read -r suite <<<"$suite" || true
    read -r file <<<"$file" || true
    [ "$verb" = run ] || continue
    case $suite in
    torch) from=$pytorch/test ;;
    cupy) from=$cupy/tests ;;
    *) continue ;;
    esac
    if [ ! -f "$from/$file" ]; then
        echo "note: no $from/$file" >&2
        continue
    fi
    mkdir -p "$folder/$suite/$(dirname "$file")"
    cp -p "$from/$file" "$folder/$suite/$file"
done < "$root/tests/gpu/torch_tests.txt"

# The files that the tests import, or that run them.
if [ -f "$cupy/tests/conftest.py" ]; then
    cp -p "$cupy/tests/conftest.py" "$folder/cupy/"
    find "$cupy/tests/cupy_tests" -maxdepth 2 -name '__init__.py' | while read -r init; do
        mkdir -p "$folder/cupy/$(dirname "${init#"$cupy/tests/"}")"
        cp -p "$init" "$folder/cupy/${init#"$cupy/tests/"}"
    done
fi
# PyTorch's tests need it, and it is rarely installed.
python3 -m pip install --quiet --no-deps --target "$folder/python" expecttest ||
    echo "note: no expecttest; PyTorch's tests do not start without it" >&2
{ cat "$pytorch/version.txt" 2>/dev/null || echo unknown; } > "$folder/torch/version.txt"
du -sh "$folder"
