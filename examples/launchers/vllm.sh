#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vllm.sh MODEL...: serves a model. The workers inherit the library. --profile=inference prefers latency to throughput.
set -eu
exec gpufeed run --profile=inference -- vllm serve "$@"
