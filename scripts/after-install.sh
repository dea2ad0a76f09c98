#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Updates the loader's cache, so that LD_PRELOAD=libgpufeed.so works without a path.
set -eu
if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
fi
