#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mpirun.sh SCRIPT...: Open MPI starts gpufeed once for each rank, which binds before the program starts. Open MPI's own
# binding is off, because it does not know GPUs; `--bind-to core` would be kept, too.
set -eu
exec mpirun -np "${RANKS:-8}" --bind-to none gpufeed run -- python3 "$@"
