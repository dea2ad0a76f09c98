#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh OUTPUT: builds the Debian packages into OUTPUT, from a copy of the files that git tracks. In the
# copy, packaging/debian becomes the folder debian.
set -euo pipefail
umask 022
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
output=$(cd "$1" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/gpufeed
mkdir "$source"
if git -C "$root" rev-parse --git-dir >/dev/null 2>&1; then
    git -C "$root" ls-files -z | (cd "$root" && xargs -0 tar -cf - --) | tar -xf - -C "$source"
else
    tar -C "$root" --exclude='./build*' -cf - . | tar -xf - -C "$source"
fi
cp -r "$source/packaging/debian" "$source/debian"
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$root/meson.build")
if [ "$(dpkg-parsechangelog -l "$source/debian/changelog" -S Version)" != "$version" ]; then
    echo "packaging/debian/changelog does not begin with version $version" >&2
    exit 1
fi
(cd "$source" && dpkg-buildpackage --build=binary --no-sign >"$work/log" 2>&1) || {
    tail -n 40 "$work/log" >&2
    exit 1
}
cp "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$output/"
