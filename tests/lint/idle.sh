#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command in CPU time that other tests leave: idle.sh COMMAND... meson gives each test a session of its own, and
# Linux first divides CPU time among sessions (sched(7), autogroups), so nice(1) alone would not help.
[ ! -w /proc/self/autogroup ] || echo 19 2>/dev/null >/proc/self/autogroup || true
exec nice -n 19 "$@"
