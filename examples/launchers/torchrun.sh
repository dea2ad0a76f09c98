#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torchrun.sh SCRIPT...: starts one rank for each GPU, and each rank binds itself. With --bind=exclusive, ranks whose GPUs
# are near the same node divide its cores.
set -eu
exec gpufeed run --bind=exclusive -- torchrun --standalone --nproc-per-node="${RANKS:-8}" "$@"
