#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh [build | --foreign]: installs the missing packages of scripts/packages.txt, or only lists
# them if it may not use root. build: only packages that the build needs. --foreign: also packages of
# tests/foreign, without starting their services.
set -euo pipefail

case ${1:-} in
--foreign) skipped='^$' kind= ;;
*) skipped='# foreign:' kind=${1:-} ;;
esac
list=$(grep -v "$skipped" "$(dirname "$0")/packages.txt" | sed -n "s/^\([a-z0-9][^ ]*\) *# $kind.*/\1/p")
missing=()
if command -v dpkg-query >/dev/null; then
    for package in $list; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
fi
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
        echo "missing, and only root can install them: apt-get install ${missing[*]}" >&2
        exit 0
    fi
    as_root=(sudo -n)
fi
echo "installing: ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
as_root+=(env RUNLEVEL=1) # so that invoke-rc.d starts no service of a package
# If installing all packages fails, installs each one: a later Debian may lack some of them.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null ||
    for package in "${missing[@]}"; do
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends "$package" >/dev/null ||
            echo "could not install $package" >&2
    done
