#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release.sh OUTPUT: checks the tree, builds all products twice, and compares their bytes. Writes into OUTPUT: source
# archive, wheel, bundle, Debian packages, SBOM, licences and SHA256SUMS; with a cross compiler also the wheel for
# aarch64. Publishes nothing.
# Before it, run GF_TIDY_NODES=225000 tests/run.sh, SOAK_MINUTES=30 meson test -C build --suite full, and tests/run.sh --foreign.
set -euo pipefail
umask 022
[ $# = 1 ] || { echo "usage: release.sh OUTPUT" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
output=$(cd "$1" && pwd)
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$root/meson.build")

step() { echo "== $*" >&2; }
fail() { echo "release.sh: $*" >&2; exit 1; }

step "the tree: nothing uncommitted, one version everywhere"
[ -z "$(ls -A "$output")" ] || fail "$output is not empty"
[ -z "$(git -C "$root" status --porcelain)" ] || fail "there are uncommitted changes"
grep -q "^## $version" "$root/CHANGELOG.md" || fail "CHANGELOG.md has no section $version"
grep -q "^gpufeed ($version)" "$root/packaging/debian/changelog" || fail "packaging/debian/changelog has no version $version"
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

targets=()
command -v aarch64-linux-gnu-gcc >/dev/null && targets+=(aarch64)

# make_all TREE RESULT: builds all products into RESULT, from a copy of the committed files that it puts into TREE.
make_all() {
    local tree=$1 result=$2
    mkdir -p "$tree" "$result"
    git -C "$root" archive HEAD | tar -xf - -C "$tree"
    (cd "$tree/packaging" && python3 -B -c '
import sys
import wheel_backend
wheel_backend.build_sdist(sys.argv[1])
wheel_backend.build_wheel(sys.argv[1])
for target in sys.argv[2:]:
    wheel_backend.build_wheel(sys.argv[1], {"target": target})' "$result" "${targets[@]}")
    "$tree/scripts/bundle.sh" "$tree/build-wheel" "$work/bundle/gpufeed-$version" \
        "$(sed -n "s/^glibc_floor = '\([0-9.]*\)'.*/\1/p" "$tree/meson.build")"
    tar -C "$work/bundle" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -cf - "gpufeed-$version" | gzip -9n >"$result/gpufeed-$version-bundle-$(uname -m).tar.gz"
    "$tree/scripts/sbom.py" "$work/bundle/gpufeed-$version" "$version" >"$result/gpufeed-$version.spdx.json"
    "$tree/scripts/deb.sh" "$result"
    rm -f "$result"/*.buildinfo "$result"/*.changes # these name the machine and the time of the build
}

step "the first build"
make_all "$work/one/tree" "$output"
step "the second build, in another folder"
make_all "$work/another/deeper/tree" "$work/again"

step "both builds have the same bytes"
diff -r "$output" "$work/again" || fail "the builds differ"

step "licences, and the size of the archive"
for name in gpufeed LGPL-2.1 libhwloc15 libnuma1 libjansson-dev; do
    [ -s "$work/bundle/gpufeed-$version/share/licenses/$name" ] || fail "the licence of $name is missing"
done
cp -r "$work/bundle/gpufeed-$version/share/licenses" "$output/licenses"

if command -v lintian >/dev/null; then
    step "lintian"
    lintian --allow-root --fail-on error,warning "$output"/*.deb || fail "lintian found faults"
fi
if command -v auditwheel >/dev/null; then
    step "auditwheel"
    for wheel in "$output"/*.whl; do
        tag=${wheel##*-none-}
        auditwheel show "$wheel" | tr '\n' ' ' | grep -q "platform tag: \"${tag%.whl}\"" || fail "auditwheel refuses the tag of $wheel"
    done
fi

step "sums"
(cd "$output" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
cat "$output/SHA256SUMS"
echo "Left to do by hand: sign SHA256SUMS, tag v$version, replace 'unreleased' in CHANGELOG.md by the date." >&2
