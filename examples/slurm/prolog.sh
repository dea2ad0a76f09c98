#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TaskProlog of slurm.conf: for tasks that have a GPU, puts the library first in LD_PRELOAD. Slurm reads "export NAME=value"
# from this script's output, and sets the variable for the task.
library=${GPUFEED_LIBRARY:-/opt/gpufeed/lib/libgpufeed.so}
[ -n "${SLURM_JOB_GPUS:-}${SLURM_STEP_GPUS:-}" ] && [ -r "$library" ] || exit 0
case ":${LD_PRELOAD:-}:" in
*libgpufeed.so:*) ;; # the user or the job script has added it
*) echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
esac
exit 0
