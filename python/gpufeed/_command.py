# SPDX-License-Identifier: Apache-2.0
"""The wheel's script `gpufeed`: replaces this process by the command."""

from __future__ import annotations

import os
import pathlib
import signal
import sys

_HERE = pathlib.Path(__file__).absolute().parent
_PLACES = (
    _HERE / "_bundle" / "bin" / "gpufeed",  # the wheel
    _HERE.parents[3] / "bin" / "gpufeed" if len(_HERE.parents) > 3 else _HERE,  # PREFIX/share/gpufeed/python/gpufeed
)


def _undo_start_of_python() -> None:
    """Resets what Python changed at its start, because the program would inherit it: two signals and LC_CTYPE."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        environment = pathlib.Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return
    if not any(entry.startswith(b"LC_CTYPE=") for entry in environment):
        os.environ.pop("LC_CTYPE", None)


def main() -> int:
    """Executes the command with the arguments of this process. Returns an exit code if that fails."""
    command = next((place for place in _PLACES if place.is_file()), _PLACES[0])
    _undo_start_of_python()
    try:
        os.execv(command, ["gpufeed", *sys.argv[1:]])
    except PermissionError as error:
        print(f"gpufeed: cannot run {command}: {error.strerror}; its file system may be mounted noexec",
              file=sys.stderr)
    except OSError as error:
        print(f"gpufeed: cannot run {command}: {error.strerror}; install the wheel again", file=sys.stderr)
    return 126
