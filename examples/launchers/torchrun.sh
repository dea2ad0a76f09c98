#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torchrun.sh SCRIPT...: one rank for each GPU. torchrun's own process uses no GPU; each rank binds itself.
# exclusive: ranks near the same node divide its cores.
set -eu
exec gpufeed run --bind=exclusive -- torchrun --standalone --nproc-per-node="${RANKS:-8}" "$@"
