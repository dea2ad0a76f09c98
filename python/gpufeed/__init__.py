# SPDX-License-Identifier: Apache-2.0
"""Figures of the preloaded libgpufeed.so about this process, and marks of steps: docs/python.md.

Without the preload, active() is False, marks have no effect, and stats() has zeros.
"""

from __future__ import annotations

from typing import Any

from ._library import active, node, version
from ._report import events, flat, report
from ._stats import Copies, Direction, Stall, Stats, Steps, stats
from ._steps import set_step, step

__all__ = ["Copies", "Direction", "Stall", "Stats", "Steps", "active", "events", "flat", "node", "report", "set_step",
           "stats", "step", "version"]


def load_ipython_extension(shell: Any) -> None:
    """IPython calls this for `%load_ext gpufeed`."""
    from . import ipython

    ipython.register(shell)
