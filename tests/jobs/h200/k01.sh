#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains with k01.py and relays its record stream to the collector (here: standard output).
set -o pipefail
cd "$(dirname "$0")" || exit 1
${PRELOAD_CMD:-} "${PYTHON:-python3}" k01.py | while IFS= read -r line; do
    printf '%(%H:%M:%S)T %s\n' -1 "${line:0:110}"
    sleep 0.08   # the collector takes about a dozen records a second
done
