"""The settings of a measurement of the optimiser's state."""

from __future__ import annotations

from dataclasses import dataclass

from toposcope.subjects.request import check_counts, make_tuples, option


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerOptions:
    """The settings of a measurement of the optimiser's state.

    Parameters
    ----------
    nulls : int
        Number of random shuffles of the moments, the null of their neural persistence.
    without : tuple of str
        Parts of names: matrices whose name contains one of them are left out.
    """

    nulls: int = option(5, "Number of random shuffles of the moments to compare with.")
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse settings that cannot be measured."""
        make_tuples(self)
        check_counts(self, {"nulls": 0})

    def keeps(self, name: str) -> bool:
        """Return whether a matrix of this name is measured."""
        return not any(part in name for part in self.without)
