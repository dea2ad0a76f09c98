#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sglang.sh MODEL...: serves a model. The scheduler processes inherit the library.
set -eu
exec gpufeed run --profile=inference -- python3 -m sglang.launch_server --model-path "$@"
