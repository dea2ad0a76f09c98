#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TaskProlog of slurm.conf: for tasks that have a GPU, puts the library first in LD_PRELOAD. Slurm reads "export NAME=value"
# from this script's output, and sets the variable for the task. Only glibc replaces $LIB, so programs for musl ignore it.
library=${LIBRARY_OF_GPUFEED:-/opt/gpufeed/glibc/\$LIB/libgpufeed.so}
[ -n "${SLURM_JOB_GPUS:-}${SLURM_STEP_GPUS:-}" ] || exit 0
# If the library does not exist, the loader prints a line. If the host's glibc is older than 2.34, it ends each program.
printed=$(LD_PRELOAD=$library /bin/true 2>&1) && [ -z "$printed" ] || exit 0
case ":${LD_PRELOAD:-}:" in
*libgpufeed.so:*) ;; # the user or the job script has added it
*) echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
esac
exit 0
