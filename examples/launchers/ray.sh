#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ray.sh [OPTION...]: starts a Ray node whose workers inherit the library. In a running cluster, set LD_PRELOAD in the
# job's runtime_env instead: {"env_vars": {"LD_PRELOAD": "..."}}.
set -eu
exec gpufeed run -- ray start --block "$@"
