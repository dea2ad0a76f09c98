# SPDX-License-Identifier: Apache-2.0
"""Marks the training steps of Hugging Face's Trainer: `Trainer(callbacks=[gpufeed.transformers.StepCallback()])`.

Only this module imports transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._steps import set_step

if TYPE_CHECKING:

    class TrainerCallback:
        """The Trainer's callback, for type checkers that lack transformers."""

else:
    from transformers import TrainerCallback


class StepCallback(TrainerCallback):
    """A step lasts from the start of an optimizer step to the start of the next one, so that it includes the wait for
    data. Its number is `global_step` after it. Evaluation is no step.
    """

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        set_step(state.global_step + 1)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        set_step(0)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        set_step(0)
