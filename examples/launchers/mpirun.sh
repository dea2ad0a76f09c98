#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mpirun.sh SCRIPT...: Open MPI starts one gpufeed for each rank, which binds the rank before the program starts. Open MPI's
# own binding is off, because Open MPI does not know GPUs. gpufeed would respect `--bind-to core`.
set -eu
exec mpirun -np "${RANKS:-8}" --bind-to none gpufeed run -- python3 "$@"
