# SPDX-License-Identifier: Apache-2.0
"""The functions of include/gpufeed.h, looked up in this process."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

# The report may grow between two calls: counters get more digits, lists more rows.
_SPARE = 4096
_TRIES = 4


def _find(name: str, result: Any, *arguments: Any, holds_gil: bool = True) -> Any:
    """Looks up a function; None if the library is not preloaded. A short function is called with the GIL held."""
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
    """Whether the engine is active: from the process's first use of CUDA on, unless GPUFEED is off."""
    return bool(_active and _active())


def node() -> Optional[int]:
    """The NUMA node of the process's GPU, even if nothing is bound; None if unknown or if there are several."""
    found = _node() if _node else -1
    return found if found >= 0 else None


def mark(number: int) -> None:
    """Calls gpufeed_step(number). Numbers are reduced to 64 bits, as in C."""
    if _step:
        _step(number)


def snapshot() -> Optional[str]:
    """The present report as JSON; None if the library is not active, or writes a report at the moment."""
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
