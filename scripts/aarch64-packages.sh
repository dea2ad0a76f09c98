#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# aarch64-packages.sh FOLDER: downloads the arm64 packages of Debian that the cross build needs into
# FOLDER. Uses this system's package sources, but a separate package state in FOLDER. Also writes
# FOLDER/packages.ini: pass it to meson after cross/aarch64.ini.
set -euo pipefail
mkdir -p "$1"
folder=$(realpath "$1")
[ -f "$folder/packages.ini" ] && exit 0

mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial}
: >"$folder/apt/status"
apt=(apt-get -qq -o "Dir::State=$folder/apt" -o "Dir::State::Lists=$folder/apt/lists"
    -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt/cache"
    -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Debug::NoLocking=1)
((EUID)) || apt+=(-o APT::Sandbox::User=root)
# apt reports an error for sources without arm64; only the download of the packages must succeed.
"${apt[@]}" update >&2 || true
(cd "$folder/apt" && "${apt[@]}" download libjemalloc-dev libcmocka-dev libcmocka0 >&2)
for package in "$folder"/apt/*.deb; do
    dpkg -x "$package" "$folder"
done

libraries=$folder/usr/lib/aarch64-linux-gnu
sed -i -E "s#(=|-L|-I)/usr#\1$folder/usr#g" "$libraries"/pkgconfig/*.pc
cat >"$folder/packages.ini" <<END
[binaries]
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu', '-E', 'LD_LIBRARY_PATH=$libraries']

[properties]
pkg_config_libdir = '$libraries/pkgconfig'
END
rm -rf "$folder/apt"
