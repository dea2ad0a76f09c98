#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TaskProlog of slurm.conf: Slurm takes "export NAME=value" from its output as the task's environment, and "print TEXT" as
# output of the task. Adds the library to tasks that have a GPU, and keeps what LD_PRELOAD has.
library=${GPUFEED_LIBRARY:-/opt/gpufeed/lib/libgpufeed.so}
[ -n "${SLURM_JOB_GPUS:-}${SLURM_STEP_GPUS:-}" ] && [ -r "$library" ] || exit 0
case ":${LD_PRELOAD:-}:" in
*libgpufeed.so:*) ;; # the user or the job script has added it
*) echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
esac
exit 0
