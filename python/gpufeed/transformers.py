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
    """Marks a step from the start of an optimizer step to the start of the next, so that it includes the wait for
    data. Its number is the value of `global_step` after the step. Evaluation is not part of a step.
    """

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        set_step(state.global_step + 1)

    def _end_before_evaluation(self, control: Any) -> None:
        if getattr(control, "should_evaluate", False):
            set_step(0)

    # The Trainer decides here whether to evaluate, and calls on_evaluate behind the evaluation.
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end_before_evaluation(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end_before_evaluation(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        set_step(0)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        set_step(0)
