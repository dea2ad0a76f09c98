# SPDX-License-Identifier: Apache-2.0
"""Reads reports (docs/report.md) and logs (docs/log.md)."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, Optional, Union

from . import _library

_Path = Union[str, "os.PathLike[str]"]


def report(path: Optional[_Path] = None) -> Optional[Dict[str, Any]]:
    """The report in a file or, without a path, this process's present report; None if the library is not active.

    Raises OSError if the file cannot be read, and ValueError if it is not a report.
    """
    if path is None:
        text = _library.snapshot()
        return None if text is None else json.loads(text)
    with open(path, encoding="utf-8", errors="replace") as file:
        found = _parse(file.read())
    if not isinstance(found, dict) or "schema" not in found or "event" in found:
        raise ValueError(f"{os.fspath(path)} is not a report (GPUFEED_REPORT)")
    return found


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the second one for a text of many brackets
        return None


def events(path: _Path) -> Iterator[Dict[str, Any]]:
    """Yields the events of a log. Lines that are not events, such as unfinished ones, are skipped."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            found = _parse(line)
            if isinstance(found, dict) and "event" in found:
                yield found


def flat(tree: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Flattens nested objects for a table: {"a": {"b": 1}} becomes {"a.b": 1}. Lists stay as they are."""
    row: Dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            row.update(flat(value, f"{prefix}{name}."))
        else:
            row[prefix + name] = value
    return row
