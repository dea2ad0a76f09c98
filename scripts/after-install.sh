#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Updates the loader's cache, through which it finds a library by its bare name.
set -eu
if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
fi
