# SPDX-License-Identifier: Apache-2.0
"""Marks steps, so that the log's events name a step, and the report counts steps."""

from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, Callable, Optional, Type, TypeVar, Union, overload

from . import _library

_Function = TypeVar("_Function", bound=Callable[..., Any])

_current = 0  # the step in progress, if this module marked it; otherwise 0
_last = 0  # the largest number that this module marked


def set_step(number: int) -> None:
    """Ends the step in progress and starts the step `number`; 0 only ends. The same as gpufeed_set_step in gpufeed.h."""
    global _current, _last
    if number < 0:
        raise ValueError(f"a step has no negative number: {number}")
    _current = number
    _last = max(_last, number)
    _library.mark(number)


class _Step:
    """`with step():`. A step inside a step has no effect."""

    def __init__(self, number: Optional[int]) -> None:
        if number is not None and number < 1:
            raise ValueError(f"a step's number is at least 1, not {number}")
        self._number = number
        self._outer = True

    def __enter__(self) -> int:
        """Returns the number of the step in progress."""
        self._outer = _current == 0
        if self._outer:
            set_step(_last + 1 if self._number is None else self._number)
        return _current

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._outer:
            set_step(0)

    def __call__(self, function: _Function) -> _Function:
        """`@step()`: each call of the function is a step."""
        return _wrap(function, self._number)


def _wrap(function: _Function, number: Optional[int]) -> _Function:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with _Step(number):
            return function(*arguments, **named)

    @functools.wraps(function)
    async def await_call(*arguments: Any, **named: Any) -> Any:
        with _Step(number):
            return await function(*arguments, **named)

    return await_call if inspect.iscoroutinefunction(function) else call  # type: ignore[return-value]


@overload
def step(number: None = ...) -> _Step: ...
@overload
def step(number: int) -> _Step: ...
@overload
def step(number: _Function) -> _Function: ...
def step(number: Union[None, int, Callable[..., Any]] = None) -> Any:
    """Marks a step: `with step():`, `with step(number):`, `@step` or `@step()`.

    Without a number, the step gets the largest number so far plus 1. A step inside a step has no effect. So if a
    trainer's callback and the program's own loop both mark a step, it counts once.
    """
    if callable(number):
        return _wrap(number, None)
    return _Step(number)
