#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# aarch64-packages.sh FOLDER: downloads Debian's arm64 packages for the cross build into FOLDER, from this
# system's package sources, without a change to its package state. Writes FOLDER/packages.ini, which
# meson reads after cross/aarch64.ini.
set -euo pipefail
mkdir -p "$1"
folder=$(realpath "$1")
grep -qs build-aarch64/src "$folder/packages.ini" && exit 0

mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial}
: >"$folder/apt/status"
apt=(apt-get -qq -o "Dir::State=$folder/apt" -o "Dir::State::Lists=$folder/apt/lists"
    -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt/cache"
    -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Debug::NoLocking=1)
((EUID)) || apt+=(-o APT::Sandbox::User=root)
# apt fails if one source lacks arm64. The other sources may be enough, so only the download must succeed.
"${apt[@]}" update >&2 || true
(cd "$folder/apt" && "${apt[@]}" download libjemalloc-dev libcmocka-dev libcmocka0 libhwloc-dev libhwloc15 libudev1 \
    libnuma-dev libnuma1 libjansson-dev >&2)
for package in "$folder"/apt/*.deb; do
    dpkg -x "$package" "$folder"
done

libraries=$folder/usr/lib/aarch64-linux-gnu
sed -i -E "s#(=|-L|-I)/usr#\1$folder/usr#g" "$libraries"/pkgconfig/*.pc
# On arm64 itself the compiler finds hwloc's second folder of headers.
sed -i "s#^Cflags:.*#& -I$folder/usr/include/aarch64-linux-gnu#" "$libraries/pkgconfig/hwloc.pc"
# A test program's own search path does not serve the libraries that hwloc's private copy needs.
cat >"$folder/packages.ini" <<END
[constants]
emulator = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu', '-E', 'LD_LIBRARY_PATH=$libraries:$PWD/build-aarch64/src/host']

[binaries]
exe_wrapper = emulator

[properties]
emulator = emulator # for the tests that start programs
pkg_config_libdir = '$libraries/pkgconfig'
END
rm -rf "$folder/apt"
