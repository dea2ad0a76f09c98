# SPDX-License-Identifier: Apache-2.0
"""Marks the training steps of Lightning: `Trainer(callbacks=[gpufeed.lightning.StepCallback()])`.

Only this module imports Lightning: `lightning` 2 or, if that is missing, `pytorch_lightning`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._steps import set_step

if TYPE_CHECKING:

    class Callback:
        """Lightning's Callback, for type checkers that lack Lightning."""

else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class StepCallback(Callback):
    """Marks a step from the start of a training batch to the start of the next, so that it includes the wait for
    data. Steps are numbered from 1 since the start of training. Validation is not part of a step.
    """

    def __init__(self) -> None:
        super().__init__()
        self._batches = 0

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._batches += 1
        set_step(self._batches)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        set_step(0)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        set_step(0)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        set_step(0)
