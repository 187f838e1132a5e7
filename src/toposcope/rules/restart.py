"""Whether a restart worked, by the steps that were trained twice, or by what the rows before it predict."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.rules.rule import LOOK, JudgedRun, Remark, Rule


class Restart(Rule):
    """The rows of steps that were trained twice are compared in pairs: before and after a restart.

    Where the log says that the training was resumed and no step comes twice, the rows after it are compared
    with the trend of those before.

    A loss that is higher for longer than its noise allows calls for a look until it is back, and so do
    batches that begin again. What the learning rate, the gradient norm and the first pair show is said.
    """

    name = "restart"
    reads = ("loss", "learning_rate", "grad_norm")
    level = LOOK
    rate = "at most 3.3% of simulated restarts, up to 7% where noise is strongly correlated (docs/restart.md)"
    next = "compare what the restart loaded with what was saved"
    says = "restarted at step N: the loss is D higher than the first time over K rows (noise S)"

    def judge(self, run: JudgedRun) -> Sequence[Remark]:
        """Compare the rows after each restart with those that they replaced, or with the trend before."""
        remarks: list[Remark] = []  # few logs have a restart
        if run.replaced is not None and len(run.replaced):
            from toposcope.rules.trained_twice import trained_twice

            remarks += [restart.remark() for restart in trained_twice(run)]
        if run.restarts:
            from toposcope.rules._after_restart import after_restarts

            remarks += [restart.remark() for restart in after_restarts(run)]
        return remarks
