#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench-bundle.sh OUTPUT PROGRAM...: makes the folder with the files that bench/ and tests/gpu need: the
# built programs, and, from this system's packages, the allocators that libgpufeed is compared with. A GPU
# machine may lack them, and the network to install them.
set -euo pipefail
output=$1
shift

rm -rf "$output"
mkdir -p "$output/licenses"
cp -p "$@" "$output/"
for peer in libjemalloc2:libjemalloc.so.2 libtcmalloc-minimal4:libtcmalloc_minimal.so.4 numactl:numactl; do
    package=${peer%%:*} file=${peer#*:}
    path=$(dpkg -L "$package" 2>/dev/null | grep "/$file\$" | head -n 1 || true)
    if [ -z "$path" ]; then
        echo "note: $package is not installed; benchmarks skip it" >&2
        continue
    fi
    cp -pL "$path" "$output/$file"
    cp "/usr/share/doc/$package/copyright" "$output/licenses/$package"
done
if [ -f "$output/numactl" ]; then # makes numactl find libnuma in this folder
    library=$(ldd "$output/numactl" | sed -n 's/.*libnuma[^ ]* => \([^ ]*\).*/\1/p')
    cp -pL "$library" "$output/libnuma.so.1"
    cp /usr/share/doc/libnuma1/copyright "$output/licenses/libnuma1"
    patchelf --set-rpath "\$ORIGIN" "$output/numactl"
fi
