#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs those of scripts/packages.txt that are missing, where this machine lets us; names them
# where it does not. packages.sh [build]: only what building needs.
set -euo pipefail

list=$(sed -n "s/^\([a-z0-9][^ ]*\) *# ${1:-}.*/\1/p" "$(dirname "$0")/packages.txt")
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
# One after the other where all at once fails: a name that a later Debian has dropped costs itself only.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null ||
    for package in "${missing[@]}"; do
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends "$package" >/dev/null ||
            echo "could not install $package" >&2
    done
