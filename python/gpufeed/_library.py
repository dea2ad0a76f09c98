# SPDX-License-Identifier: Apache-2.0
"""The functions of include/gpufeed.h, found among the symbols of this process."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

# The report grows while it is read: its counters get more digits, its lists more rows.
_SPARE = 4096
_TRIES = 4


def _find(name: str, result: Any, *arguments: Any, holds_gil: bool = True) -> Any:
    """The function, or None if the library is not preloaded. A short function keeps the interpreter's lock."""
    try:
        library = ctypes.PyDLL(None) if holds_gil else ctypes.CDLL(None)
        function = getattr(library, name)
    except (AttributeError, OSError, TypeError):  # no library; no dynamic linker; not a POSIX system
        return None
    function.restype, function.argtypes = result, arguments
    return function


_version = _find("gpufeed_version", ctypes.c_char_p)
_active = _find("gpufeed_active", ctypes.c_int)
_node = _find("gpufeed_gpu_node", ctypes.c_int)
_step = _find("gpufeed_step", None, ctypes.c_ulonglong)
_report = _find("gpufeed_report", ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, holds_gil=False)


def version() -> Optional[str]:
    """The version of the preloaded library; None without it."""
    found: Optional[bytes] = _version() if _version else None
    return None if found is None else found.decode()


def active() -> bool:
    """Whether the library works in this process: after the first use of CUDA, unless it is switched off."""
    return bool(_active and _active())


def node() -> Optional[int]:
    """The NUMA node on which the library places threads and memory; None if it is unknown or there is none."""
    found = _node() if _node else -1
    return found if found >= 0 else None


def mark(number: int) -> None:
    """gpufeed_step(number). Numbers outside 64 bits wrap around, as in C."""
    if _step:
        _step(number)


def snapshot() -> Optional[str]:
    """The report of this moment as JSON; None without an active library, and if it is busy."""
    if not _report:
        return None
    size = _report(None, 0)
    for _ in range(_TRIES):
        if not size:
            return None
        text = ctypes.create_string_buffer(size + _SPARE)
        size = _report(text, len(text))
        if 0 < size < len(text):
            return text.value.decode(errors="replace")
    return None
