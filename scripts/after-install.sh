#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The loader finds a library by its bare name through its cache.
set -eu
if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
fi
