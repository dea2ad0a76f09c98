#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command in CPU time that other tests leave: idle.sh COMMAND... meson gives each test a session of its own, and
# Linux first divides CPU time among sessions (sched(7), autogroups), so nice(1) alone would not help. In another session,
# such as a terminal's, the shell and all its programs would lose their share, so only nice(1) is used there.
read -r _ _ _ _ _ session _ <"/proc/$$/stat"
if [ "$session" = $$ ] && [ -w /proc/self/autogroup ]; then
    echo 19 2>/dev/null >/proc/self/autogroup || true
fi
exec nice -n 19 "$@"
