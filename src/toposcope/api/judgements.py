"""What a store or a table says: the analysis, the page, the forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.results import Forecasts, Report

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.analysis.analysis import Analysis, Source


def analyze(
    source: Source | Sequence[Source],
    *,
    targets: str | Sequence[str] = (),
    columns: Sequence[str] = (),
    scores: str | Path | pd.DataFrame | None = None,
    rename: Mapping[str, str] | None = None,
) -> Analysis:
    """Analyse a store (or several), a table with one row per checkpoint, or a CSV or parquet file of one.

    Parameters
    ----------
    source
        A `Store`, the path of one, a DataFrame with the columns step, features and losses (run, parameters
        and seed where there are several runs), or the path of such a table.
    targets
        Columns to explain; the first one carries the findings. By default the held-out loss or the loss,
        and the log perplexity for representations.
    columns
        Features to analyse; by default those of the model and of each role.
    scores
        Further targets: a file that `read_targets` reads, or what it returns.
    rename
        What columns of a table are: {"final_loss": "loss"}.

    Raises
    ------
    InputError
        When there is nothing measured, a target or a column is not there, or two stores hold the same
        kind of measurement.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"step": range(30), "loss": [5 / (i + 2) for i in range(30)],
    ...     "mine": [i**0.5 for i in range(30)]})
    >>> analyze(frame).findings["beyond"].strength in ("trend only", "cannot tell")
    True
    """
    from toposcope.analysis.analysis import analysis_of
    from toposcope.papers.published import PUBLISHED

    return analysis_of(
        source, targets=targets, columns=columns, scores=scores, rename=rename, published=PUBLISHED
    )


def report(
    source: Analysis | Source | Sequence[Source],
    out: str | Path,
    *,
    title: str | None = None,
    target: str | None = None,
    scores: str | Path | pd.DataFrame | None = None,
) -> Report:
    """Write one self-contained page on what a store's topology says, and its figures and tables as files.

    Parameters
    ----------
    source
        An `Analysis`, a store, several stores (weights beside representations), or a table.
    out
        The folder that receives the report; a report there is replaced, anything else is left alone.
    title
        The page's title.
    target
        What correlations are taken with; by default the held-out loss, the loss or the log perplexity.
    scores
        Further targets: a file, or what `read_targets` returns.

    Raises
    ------
    InputError
        When nothing is measured, the target is not there, or `out` holds something else.

    Examples
    --------
    >>> import toposcope as ts
    >>> ts.report("store", "report")                               # doctest: +SKIP
    """
    from toposcope.analysis.analysis import Analysis
    from toposcope.report.page import check_target
    from toposcope.report.write import TITLE, problems_of, write_studies

    check_target(Path(out))
    if not isinstance(source, Analysis):
        source = analyze(source, targets=() if target is None else target, scores=scores)
    page = write_studies(source.studies, out, title=TITLE if title is None else title)
    return Report(page, source, problems_of(source.studies))


def forecast(
    sources: str | Path | pd.DataFrame | Sequence[str | Path], *, column: str = "loss", level: float = 0.9
) -> Forecasts:
    """Forecast the final loss of every run that is not finished, from itself and its finished siblings.

    Parameters
    ----------
    sources
        Stores, run folders or tables (columns step and loss; run and parameters where there are several).
    column
        The loss to forecast.
    level
        Coverage of the intervals.

    Raises
    ------
    InputError
        When no loss is recorded.

    Examples
    --------
    >>> import toposcope as ts
    >>> ts.forecast("store")                                       # doctest: +SKIP
    large: final loss 2.31 [2.27, 2.36], 90%, by auto
    """
    import pandas as pd

    from toposcope.analysis.forecast import forecast as forecast_one
    from toposcope.analysis.forecast.auto import Auto
    from toposcope.analysis.forecast.frame import log_from_frame
    from toposcope.analysis.forecast.gather import gather_curves, split_runs
    from toposcope.analysis.forecast.reading import Reading, read_curves

    if isinstance(sources, pd.DataFrame):
        log = log_from_frame(sources, name="run", column=column)
        curves, problems = gather_curves(log.metrics, log.runs, wide=log.wide, column=column)
        notes = list(log.notes)
    else:
        given = [sources] if isinstance(sources, str | Path) else list(sources)
        curves, problems, notes = read_curves([str(one) for one in given], Reading(column=column))
    finished, begun = split_runs(curves)
    made = [forecast_one(Auto(), curve, finished, level=level) for curve in begun]
    rows = [
        {
            "run": one.run, "method": one.method, "share_seen": one.share, "final_loss": one.final,
            "low": one.low, "high": one.high, "level": one.level, "status": one.status, "reason": one.reason,
        }
        for one in made
    ]  # fmt: skip
    names = ["run", "method", "share_seen", "final_loss", "low", "high", "level", "status", "reason"]
    said = [f"{problem.run}: {problem.reason}" for problem in problems]
    return Forecasts(pd.DataFrame(rows, columns=names), (*said, *notes))
