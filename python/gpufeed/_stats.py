# SPDX-License-Identifier: Apache-2.0
"""The report's most used figures, with fixed types."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, TypedDict

from . import _library
from ._report import report


class Copies(TypedDict):
    """Copies between host memory and a GPU."""

    calls: int
    bytes: int
    seconds: float  # from call to return, including waits for the stream


class Direction(TypedDict):
    """Copies in one direction that the library examined, by the way they took."""

    staged: Copies  # pageable memory, copied through the staging ring
    pinned: Copies  # page-locked memory of the program
    driver: Copies  # pageable memory, left to the driver


class Stall(TypedDict):
    """Calls that took longer than their threshold."""

    calls: int
    seconds: float


class Steps(TypedDict):
    """Steps that the program marked."""

    ended: int
    seconds: float  # from the first mark to the last one
    current: Optional[int]  # None between two steps


class Stats(TypedDict):
    """Steps and stalls are counted since the process's start, all other sums since its first use of CUDA."""

    version: Optional[str]  # None without the preload
    active: bool
    observe: bool  # GPUFEED=observe: the library changes nothing
    seconds: float  # since the first use of CUDA
    gpus: List[str]
    node: Optional[int]  # of the GPU
    bound: bool  # whether threads are bound to CPUs of that node
    steps: Steps
    stalls: Dict[str, Stall]  # by cause
    to_device: Direction
    from_device: Direction
    ring_bytes: int  # pinned memory of the staging rings
    gpu_seconds: float  # sum over the GPUs of the time in which the library sampled them
    gpu_idle_seconds: float  # the part of it in which a GPU had nothing to do
    idle_share: Optional[float]  # None before the first samples


def _copies(found: Mapping[str, Any]) -> Copies:
    return {"calls": found.get("calls", 0), "bytes": found.get("bytes", 0), "seconds": found.get("duration_s", 0.0)}


def _direction(found: Mapping[str, Any]) -> Direction:
    return {"staged": _copies(found.get("staged", {})), "pinned": _copies(found.get("pinned", {})),
            "driver": _copies(found.get("driver", {}))}


def _stalls(found: Mapping[str, Any]) -> Dict[str, Stall]:
    return {cause: {"calls": row["count"], "seconds": row["us"] / 1e6} for cause, row in found.get("causes", {}).items()}


def _steps(found: Mapping[str, Any]) -> Steps:
    return {"ended": found.get("ended", 0), "seconds": found.get("us", 0) / 1e6, "current": found.get("current")}


def stats() -> Stats:
    """The present figures. If the library is not active, all of them are zero, empty or None."""
    found: Mapping[str, Any] = report() or {}
    transfers = found.get("transfers") or {}
    gpus = (found.get("gpu_time") or {}).get("devices", ())
    seconds = sum((gpu["s"] for gpu in gpus), 0.0)
    idle = sum((gpu["states"]["empty"]["s"] for gpu in gpus), 0.0)
    return {
        "version": _library.version(),
        "active": bool(found),
        "observe": found.get("observe", False),
        "seconds": found.get("ran_s", 0.0),
        "gpus": [gpu["name"] for gpu in found.get("gpus", ())],
        "node": _library.node(),
        "bound": found.get("binding", {}).get("in_force", False),
        "steps": _steps(found.get("steps") or {}),
        "stalls": _stalls(found.get("stalls") or {}),
        "to_device": _direction(transfers.get("to_device", {})),
        "from_device": _direction(transfers.get("from_device", {})),
        "ring_bytes": transfers.get("ring", {}).get("bytes", 0),
        "gpu_seconds": seconds,
        "gpu_idle_seconds": idle,
        "idle_share": idle / seconds if seconds else None,
    }
