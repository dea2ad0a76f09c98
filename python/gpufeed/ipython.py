# SPDX-License-Identifier: Apache-2.0
"""The magics of `%load_ext gpufeed`: `%gpufeed` shows this process's figures, `%%gpufeed` those of one cell."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ._report import flat
from ._stats import Stats, stats

_MIB = 1 << 20


class CellFailed(Exception):
    """IPython has shown the cell's error. This exception makes the outer cell fail, too, so that "Run All" stops."""

    def _render_traceback_(self) -> List[str]:
        """IPython shows these lines instead of a traceback."""
        return [str(self)]


def register(shell: Any) -> None:
    """Adds both magics to a running IPython shell."""

    def gpufeed(line: str, cell: Optional[str] = None) -> None:
        """%gpufeed prints copies and stalls of this process, %%gpufeed those of the cell."""
        before = stats()
        done = None if cell is None else shell.run_cell(cell)
        print(text(stats(), None if cell is None else before))
        if done is not None and not done.success:
            raise CellFailed("The cell failed; its error is shown above.")

    shell.register_magic_function(gpufeed, "line_cell", "gpufeed")


def _increase(now: Stats, before: Optional[Stats]) -> Dict[str, Any]:
    old: Dict[str, Any] = flat(dict(before)) if before else {}
    return {name: value - (old.get(name) or 0) if isinstance(value, (int, float)) else value  # some may be None
            for name, value in flat(dict(now)).items()}


def _copied(row: Dict[str, Any], direction: str, word: str) -> str:
    parts = [f"{row[f'{direction}.{way}.bytes'] / _MIB:.0f} MiB {name}"
             for way, name in (("staged", "staged"), ("pinned", "from pinned memory" if word == "to" else "to pinned memory"),
                               ("driver", "by the driver"))
             if row[f"{direction}.{way}.bytes"]]
    return f"copied {word} the GPU: {', '.join(parts)}" if parts else ""


def text(now: Stats, before: Optional[Stats] = None) -> str:
    """The figures as lines; with `before`, only the increase since then."""
    if now["version"] is None:
        return "gpufeed is not preloaded: start Jupyter by `gpufeed run -- jupyter lab`"
    if not now["active"]:
        return f"gpufeed {now['version']} is not active: the process has not used CUDA, or GPUFEED is off"
    row = _increase(now, before)
    place = "not bound" if not now["bound"] else "bound" if now["node"] is None else f"bound to node {now['node']}"
    stalls = [f"{cause} {row[f'stalls.{cause}.calls']} ({row[f'stalls.{cause}.seconds']:.3f} s)"
              for cause in now["stalls"] if row[f"stalls.{cause}.calls"]]
    seconds = row["gpu_seconds"]
    # A sample may count a time without work that began before the cell.
    idle = 100 * min(row["gpu_idle_seconds"] / seconds, 1) if seconds >= 0.1 else 0
    lines: List[str] = [
        f"gpufeed {now['version']} on {', '.join(now['gpus']) or 'an unknown GPU'}: {place}",
        f"the GPU had nothing to do {idle:.1f} % of {seconds:.1f} s" if seconds >= 0.1 else "",
        _copied(row, "to_device", "to"),
        _copied(row, "from_device", "from"),
        f"stalls: {', '.join(stalls)}" if stalls else "no stalls",
    ]
    return "\n".join(line for line in lines if line)
