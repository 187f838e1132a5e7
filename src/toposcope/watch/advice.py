"""What to do next at an alarm, in one clause."""

from __future__ import annotations

from collections.abc import Mapping

_NEXT: Mapping[str, str] = {
    "loss spike": "look at the batch of this step, and go back{back} if the loss does not return",
    "loss drift": "check the latest data and the learning rate, and go back{back} or lower the rate",
    "loss not finite": "stop, and go on{back} with a lower rate or clipped gradients",
    "gradient spike": "look at the batch of this step; clip gradients if spikes come again",
    "update norm": "check the learning rate, the clipping and the batch since the last checkpoint",
    "update level": "check what scales the updates: schedule, clipping, loss scale, frozen parameters",
    "growth": "check what moves this tensor (rate, weight decay, clipping), or go back{back}",
    "matrix or head": "compare this checkpoint with the one before: `toposcope compare`",
    "content": "read the file again, and go back{back} if it says the same",
    "not finite": "stop, and go on{back}: what comes after it is lost",
    "sibling band": "compare its settings and its data with those of the other seeds",
    "forecast target": "change the plan or the target; `toposcope forecast` weighs it",
}


def next_step(test: str, good: int | None) -> str:
    """Return what to do at an alarm of a test; `good` is the last good step, where one is known.

    >>> next_step("not finite", 300)
    'stop, and go on from step 300: what comes after it is lost'
    """
    back = f" from step {good:,}" if good is not None else " from the last good checkpoint"
    said = _NEXT.get(test, "look at the checkpoint before and after it")
    return said.replace("back{back}", "back" + back.replace(" from ", " to ", 1)).replace("{back}", back)
