#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bundle.sh BUILD OUTPUT GLIBC: makes a folder that runs without installation. Programs in bin/ and
# libraries in lib/ find each other by relative paths. Fails if a file needs a newer glibc than GLIBC, or a
# library that is neither part of glibc nor in the folder.
set -euo pipefail
umask 022 # other users, as in a container, must be able to read the files
build=$1 output=$2 floor=$3
root=$(cd "$(dirname "$0")/.." && pwd)

stage=$(mktemp -d)
# Restores the log of the user's last install at the end, because `ninja uninstall` reads it.
log=$build/meson-logs/install-log.txt
[ ! -f "$log" ] || cp -p "$log" "$stage.log"
put_log_back() {
    rm -f "$log"
    [ ! -f "$stage.log" ] || mv "$stage.log" "$log"
}
trap 'rm -rf "$stage"; put_log_back' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$stage"

rm -rf "$output"
mkdir -p "$output/bin" "$output/lib" "$output/share/licenses"
find "$stage" -type f -path '*/bin/gpufeed*' -exec cp -p {} "$output/bin/" \;
find "$stage" -type f -name '*.so' -exec cp -p {} "$output/lib/" \;
find "$stage" -type d \( -name man -o -name bash-completion -o -path '*/share/gpufeed' \) -exec cp -rp {} "$output/share/" \;
# LD_PRELOAD='glibc/$LIB/libgpufeed.so': glibc replaces $LIB by lib64 or by one of the other names. The loader of musl
# does not, so it finds no file, and ignores the variable.
mkdir -p "$output/glibc/lib"
ln -s ../lib "$output/glibc/lib64"
ln -s ../../lib "$output/glibc/lib/x86_64-linux-gnu"
ln -s ../../lib "$output/glibc/lib/aarch64-linux-gnu"
cp "$root/LICENSE" "$output/share/licenses/gpufeed"
for package in libhwloc15 libnuma1 libjansson-dev libjemalloc2 libjemalloc-dev libhwloc-dev libnuma-dev libunwind-dev liblzma-dev; do
    [ -f "/usr/share/doc/$package/copyright" ] &&
        cp "/usr/share/doc/$package/copyright" "$output/share/licenses/$package"
done
# libnuma's license requires its text with every copy; Debian's copyright file only gives a path.
[ ! -f /usr/share/common-licenses/LGPL-2.1 ] ||
    cp -L /usr/share/common-licenses/LGPL-2.1 "$output/share/licenses/"
patchelf --force-rpath --set-rpath "\$ORIGIN/../lib" "$output/bin/gpufeed"
# Libraries find each other in this folder. A library that needs none of them is not changed, because patchelf
# would add a segment, and so one more mapping in each process.
for library in "$output"/lib/*.so; do
    ! patchelf --print-needed "$library" | grep -q '^libg' || patchelf --force-rpath --set-rpath "\$ORIGIN" "$library"
done

bad=0
for file in "$output"/bin/gpufeed* "$output"/lib/*.so; do
    newest=$(readelf -W --dyn-syms "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
    newest=${newest#GLIBC_}
    if [ "$(printf '%s\n%s\n' "${newest:-0}" "$floor" | sort -V | tail -n 1)" != "$floor" ]; then
        echo "$file needs glibc $newest, which is newer than $floor" >&2
        readelf -W --dyn-syms "$file" | grep "GLIBC_$newest" >&2
        bad=1
    fi
    while read -r needed; do
        case $needed in
        libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-*) ;;
        *)
            if [ ! -f "$output/lib/$needed" ]; then
                echo "$file needs $needed, which the bundle lacks" >&2
                bad=1
            fi
            ;;
        esac
    done < <(patchelf --print-needed "$file")
done
exit "$bad"
