"""Whether a restart worked, by the steps that were trained twice."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.rules.rule import LOOK, JudgedRun, Remark, Rule


class Restart(Rule):
    """The rows of steps that were trained twice are compared in pairs: before and after a restart.

    A loss that is higher for longer than its noise allows calls for a look until it is back, and so do
    batches that begin again. What the learning rate, the gradient norm and the first pair show is said.
    """

    name = "restart"
    reads = ("loss", "learning_rate", "grad_norm")
    level = LOOK
    rate = "docs/restart.md, How often it is wrong"
    says = "restarted at step N: the loss is D higher than the first time over K rows (noise S)"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare each stretch of replaced rows with the rows that replaced it."""
        if run.replaced is None or not len(run.replaced):
            return []
        from toposcope.rules.trained_twice import trained_twice  # few logs have a restart

        return [restart.remark() for restart in trained_twice(run)]
