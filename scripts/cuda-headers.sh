#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a folder that contains cuda.h, the only part of CUDA that the build needs: the folder of an installed
# toolkit, or that of NVIDIA's Python wheel, which is downloaded once into the user's cache.
set -eu

for dir in "${CUDA_HOME:-/nonexistent}/include" /usr/local/cuda/include /opt/cuda/include /usr/include; do
    if [ -f "$dir/cuda.h" ]; then
        echo "$dir"
        exit 0
    fi
done

cache="${XDG_CACHE_HOME:-$HOME/.cache}/gpufeed/cuda-headers"
found=$(find "$cache" -name cuda.h -print -quit 2>/dev/null || true)
if [ -z "$found" ]; then
    mkdir -p "$cache"
    if python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$cache" \
        'nvidia-cuda-runtime>=13,<14' >&2; then
        (cd "$cache" && python3 -m zipfile -e ./*.whl .)
    fi
    found=$(find "$cache" -name cuda.h -print -quit)
fi
[ -n "$found" ] || { echo "no cuda.h: install a CUDA toolkit, or set -Dcudaheaders=FOLDER" >&2; exit 1; }
dirname "$found"
