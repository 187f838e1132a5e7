"""A scaling law of a table of models, or of a store's runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.answered import Tables, answered
from toposcope.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.study.findings import Finding

_AVERAGED = ("power", "offset")
"""Laws in size alone: the seeds of one size are averaged, since they add no size."""


@dataclass(frozen=True)
class ScalingLaw:
    """A fitted scaling law: `table` has a row for each number, with its standard error and 95% interval.

    `rows` is the number of rows that were read, `models` the number of models with one row each, and `sizes`
    the number of distinct sizes (None if the size is unknown). `points` are the values that were fitted, with
    a column for each quantity.
    """

    name: str
    formula: str
    table: pd.DataFrame
    rows: int
    models: int
    sizes: int | None
    points: pd.DataFrame

    @property
    def failed(self) -> bool:
        """Whether nothing could be fitted."""
        return bool((self.table["status"] == "failed").all())

    @property
    def counted(self) -> str:
        """The data behind the fit, in words."""
        last = f", the last rows of {self.models:,} runs" if self.models < self.rows else ""
        return f"{self.rows:,} rows{last}" + (
            f", {self.sizes} distinct sizes" if self.sizes is not None else ""
        )

    @property
    def fitted(self) -> np.ndarray:
        """The value of the law at each of the `points`, (points,); NaN if nothing could be fitted."""
        from toposcope.scaling.table import predicted

        return predicted(self.name, self.table, self.points)

    @property
    def tables(self) -> Tables:
        """The fitted numbers, and the points that they were fitted to."""
        return Tables(numbers=lambda: self.table, points=lambda: self.points)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every number of the law with its interval, or the reason why there is none, and warnings."""
        from toposcope.study.findings import Finding

        rows = self.table[self.table["value"].notna()].to_dict("records")
        numbers: dict[str, object] = {"law": self.name, "models": self.models, "sizes": self.sizes}
        numbers |= {row["parameter"]: (row["value"], row["low"], row["high"]) for row in rows}
        reasons = tuple(dict.fromkeys(reason for reason in self.table["reason"] if reason))
        return (Finding("scale", str(self.table["status"].iloc[0]), numbers, left_out=reasons),)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the points and the law, or fitted against measured for two quantities; return the axes."""
        from toposcope.page.figures.law import draw_law

        return draw_law(self.name, self.formula, self.table, self.points, ax)

    def __repr__(self) -> str:
        """Return each number with its interval in one line, or why there is none."""
        given = self.table[self.table["value"].notna()]
        reason = str(self.table["reason"].iloc[0])
        if given.empty:
            return f"No number can be given: {reason}"
        parts = [
            f"{name} {value:.4g}" + (f" ({low:.4g} to {high:.4g})" if low == low and high == high else "")
            for name, value, low, high in zip(
                *(given[c] for c in ("parameter", "value", "low", "high")), strict=True
            )
        ]
        return ", ".join(parts) + (f". Caution: {reason}" if reason else "")

    def _repr_html_(self) -> str:
        return answered(repr(self), self.table, self.plot)


def fit_scaling_law(
    source: str | Path | pd.DataFrame,
    law: str,
    *,
    columns: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    leave_out: int = 0,
) -> ScalingLaw:
    """Fit a scaling law to a table of models, or to the last losses of a store's runs.

    The laws: "power" (a N^b), "offset" (a N^b + c), "chinchilla" (E + A / N^alpha + B / D^beta), "kaplan",
    "size-steps", "loss-to-loss" and "two-stage"; `toposcope.scaling.table.FORMULAS` writes them out.

    Parameters
    ----------
    source
        A store's folder, a CSV or parquet file, or a DataFrame. If rows have run and step, the
        last row of each run counts.
    law
        The name of the law.
    columns
        The columns of the quantities, such as {"size": "n_params"}: size, data, steps, loss, other, compute
        or score.
    rename
        New names of columns of a table: {"final_loss": "loss"}.
    leave_out
        Number of models to leave out; those with the fewest tokens per parameter go first.

    Returns
    -------
    ScalingLaw
        Each number with its standard error and 95% interval, or why there is none.

    Raises
    ------
    InputError
        When there is no such law or quantity, the source cannot be read, or a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> size = [1e6, 4e6, 16e6, 64e6, 256e6]
    >>> law = fit_scaling_law(pd.DataFrame({"parameters": size, "score": [n**0.25 for n in size]}), "power",
    ...     columns={"loss": "score"})
    >>> round(float(law.table.set_index("parameter")["value"]["exponent"]), 3), law.counted
    (0.25, '5 rows, 5 distinct sizes')
    >>> law.plot().get_xlabel()
    'size'
    """
    import pandas as pd

    from toposcope.scaling.table import COLUMNS, FORMULAS, last_rows, law_points, law_table

    named = dict(columns or {})
    if unknown := [name for name in named if name not in COLUMNS]:
        raise InputError(f"there is no quantity {unknown[0]!r}; the quantities are {', '.join(COLUMNS)}")
    read = _read(source, named.values(), rename or {})
    size, loss = (named.get(name, COLUMNS[name]) for name in ("size", "loss"))
    models = last_rows(read, loss)
    table = law_table(models, law, columns=named, leave_out=leave_out, by_size=law in _AVERAGED)
    points = law_points(models, law, columns=named, leave_out=leave_out, by_size=law in _AVERAGED)
    sizes = None
    if size in models:
        stated_sizes = pd.to_numeric(models[size], errors="coerce")
        sizes = int(stated_sizes[stated_sizes > 0].nunique())
    return ScalingLaw(law, FORMULAS[law], table, len(read), len(models), sizes, points)


def _read(
    source: str | Path | pd.DataFrame, keep: Collection[str], rename: Mapping[str, str]
) -> pd.DataFrame:
    """Return a table's rows, or the logged losses of a store's runs with their sizes."""
    import pandas as pd

    from toposcope.logs import is_log, unchecked_log
    from toposcope.store import Store

    if isinstance(source, pd.DataFrame) or is_log(source):
        return unchecked_log(source, rename=rename, keep=keep).table
    from toposcope.logs.belonging import groups_of

    store = Store.open(source)
    runs, losses = store.runs(), store.metrics()
    known_columns = [name for name in ("run", "parameters", "family", "corpus") if name in runs]
    groups = groups_of(
        pd.DataFrame({"run": losses["run"].unique()}).merge(runs, on="run", how="left"), losses
    )
    label = {run: group.label for group in groups for run in group.runs}
    return losses.merge(runs[known_columns], on="run", how="left").assign(group=losses["run"].map(label))
