"""Rieck's stopping rule: training may end when neural persistence has stopped rising."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.core.errors import InputError


def stopping_index(
    values: Sequence[float], *, patience: int, burn_in: int = 0, delta: float = 0.0
) -> int | None:
    """Return the first check at which training would stop; None if the rule never fires.

    After `burn_in` checks, the rule keeps the best value so far and counts the checks that do not exceed it
    by more than `delta`. A check that does resets the count. The rule fires at a count of `patience`. It uses
    no value after the index that it returns, so it can be applied to a series that is still growing.

    Parameters
    ----------
    values : sequence of float
        Mean neural persistence at each check (checkpoint or epoch).
    patience : int
        Checks without a rise: g in the paper, at least 1.
    burn_in : int
        Checks ignored at the start: b in the paper.
    delta : float
        Smallest rise that counts.

    Raises
    ------
    InputError
        `patience` below 1, a negative `burn_in` or `delta`.

    References
    ----------
    Rieck et al., "Neural Persistence: A Complexity Measure for Deep Neural Networks Using Algebraic
    Topology", ICLR 2019.

    Examples
    --------
    >>> stopping_index([0.1, 0.3, 0.5, 0.5, 0.5, 0.6], patience=2)
    4
    """
    rule = StoppingRule(patience=patience, burn_in=burn_in, delta=delta)
    return next((index for index, value in enumerate(values) if rule.update(value)), None)


class StoppingRule:
    """The rule of `stopping_index` on a series that grows; it keeps the best value and counts.

    >>> rule = StoppingRule(patience=2)
    >>> [rule.update(value) for value in (0.3, 0.5, 0.5, 0.5, 0.5)]
    [False, False, False, True, False]
    """

    def __init__(self, *, patience: int, burn_in: int = 0, delta: float = 0.0) -> None:
        if patience < 1:
            raise InputError(f"patience = {patience} must be at least 1")
        if burn_in < 0 or delta < 0:
            raise InputError(f"burn_in = {burn_in} and delta = {delta:g} must not be negative")
        self._patience, self._burn_in, self._delta = patience, burn_in, delta
        self._best, self._waited, self._fired = 0.0, 0, False

    def update(self, value: float) -> bool:
        """Add a check; return whether training would stop at it, which is true only once."""
        if self._burn_in:
            self._burn_in -= 1
            return False
        if value > self._best + self._delta:
            self._best, self._waited = value, 0
            return False
        self._waited += 1
        if self._fired or self._waited < self._patience:
            return False
        self._fired = True
        return True
