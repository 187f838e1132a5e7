"""What a command does, as one function each: open, audit, measure, analyse, forecast, report, compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.errors import InputError

LANDSCAPE_PROBES = ("sharpness", "curvature", "surface", "paths", "retrain")

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from toposcope.analysis.analysis import Analysis, Source
    from toposcope.probes.base import Probe
    from toposcope.probes.landscape.options import LandscapeOptions
    from toposcope.probes.landscape.study import LandscapeStudy
    from toposcope.sources import Finding, Series
    from toposcope.store import Store
    from toposcope.types import Checkpoint

    Where = str | Path | Series | Sequence[str | Path]


_ROUNDING = 1e-6
"""Relative difference below which two numbers of a comparison are one number twice."""
_MOST_KINDS = 6
"""Kinds of matrices that a comparison names in its line."""


@dataclass(frozen=True)
class Audit:
    """What an audit of a series found: `findings`, and `table` with a row for each of them."""

    checkpoints: int
    runs: int
    findings: tuple[Finding, ...]

    @property
    def table(self) -> pd.DataFrame:
        """The findings as a table: run, step, fault, tensor, message."""
        import dataclasses

        import pandas as pd

        names = ["run", "step", "fault", "tensor", "message"]
        return pd.DataFrame([dataclasses.asdict(one) for one in self.findings]).reindex(columns=names)

    def __repr__(self) -> str:
        """Return the answer, then the first findings."""
        seen = f"{self.checkpoints} checkpoints of {self.runs} runs"
        if not self.findings:
            return f"{seen}: nothing found"
        first = [f"{f.run} step {f.step}: {f.fault}: {f.message}" for f in self.findings[:5]]
        return "\n".join([f"{seen}: {len(self.findings)} findings; the first:", *first])

    def _repr_html_(self) -> str:
        return (
            f"<p><strong>{escape(repr(self).splitlines()[0])}</strong></p>{self.table.to_html(index=False)}"
        )


@dataclass(frozen=True)
class Comparison:
    """Two checkpoints side by side: `table` has a row for each matrix and feature, second minus first."""

    first: str
    second: str
    table: pd.DataFrame

    @property
    def changed(self) -> tuple[str, ...]:
        """The matrices in which some number differs by more than twice the noise of its draws."""
        rows = self.table[(self.table["scope"] == "matrix") & (self.table["status"] == "ok")]
        size = rows[["first", "second"]].abs().max(axis=1).fillna(0.0).clip(lower=1e-3)
        beyond = rows["difference"].abs() > 2 * rows["standard_error"].fillna(0.0) + _ROUNDING * size
        return tuple(dict.fromkeys(rows.loc[beyond, "name"].astype(str)))

    @property
    def headline(self) -> str:
        """What changed in one line: how many of the matrices, and what they are."""
        matrices = self.table.loc[self.table["scope"] == "matrix", "name"].nunique()
        found = self.changed
        said = f"{len(found)} of {matrices} matrices differ beyond twice the noise of the draws"
        if not found:
            return said
        kinds = list(dict.fromkeys(_kind(name) for name in found))
        more = f" and {len(kinds) - _MOST_KINDS} more kinds" if len(kinds) > _MOST_KINDS else ""
        return f"{said}: {', '.join(kinds[:_MOST_KINDS])}{more}"

    def plot(self) -> Figure:
        """Draw the differences layer by layer."""
        from toposcope.figures.comparison import comparison

        return comparison(self.table, first=self.first, second=self.second)

    def __repr__(self) -> str:
        """Return what changed, and between what."""
        return (
            f"{self.headline}\n{self.second} minus {self.first}; .table has the numbers, .plot() draws them"
        )

    def _repr_html_(self) -> str:
        return f"<p><strong>{escape(repr(self))}</strong></p>{self.table.head(40).to_html(index=False)}"


def _kind(name: str) -> str:
    """Return what a matrix is whatever its layer: "model.layers.3.attn.q_proj.weight" is a q_proj."""
    parts = [part for part in name.split(".") if part != "weight" and not part.isdigit()]
    return parts[-1] if parts else name


@dataclass(frozen=True)
class Report:
    """A written page: its path, the analysis behind it, and what of the logs was left out."""

    page: Path
    analysis: Analysis
    problems: tuple[str, ...]

    def __repr__(self) -> str:
        """Return the headline of every part, and where the page is."""
        return "\n".join([*(found.headline for found in self.analysis.all_findings), f"open {self.page}"])

    def _repr_html_(self) -> str:
        return f"{self.analysis._repr_html_()}<p><a href='{escape(str(self.page))}'>the page</a></p>"


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of final losses: `table` has a row for each run and method, `problems` what was left out."""

    table: pd.DataFrame
    problems: tuple[str, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each run's forecast with its interval, the first method's, and return the axes."""
        from toposcope.figures.verdict import draw_intervals

        chosen = self.table.drop_duplicates("run")
        return draw_intervals(list(chosen["run"]), chosen[["final_loss", "low", "high"]].to_numpy(float), ax)

    def __repr__(self) -> str:
        """Return one line for each run."""
        lines = []
        for line in self.table.drop_duplicates("run").to_dict("records"):
            if line["status"] == "failed":
                lines.append(f"{line['run']}: no forecast: {line['reason']}")
                continue
            band = f"[{line['low']:.4g}, {line['high']:.4g}], {line['level']:.0%}"
            lines.append(f"{line['run']}: final loss {line['final_loss']:.4g} {band}, by {line['method']}")
        return "\n".join(lines or ["no run to forecast: every run is finished"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{self.table.to_html(index=False)}"


def audit(series: Where, *, cheap: bool = False, quiet: bool = True) -> Audit:
    """Look for errors in a series of checkpoints: identical, damaged, swapped or misplaced ones.

    Parameters
    ----------
    series
        A `Series`, or anything that `open_series` opens.
    cheap
        Read headers and a sample of each tensor only.

    Raises
    ------
    InputError
        When the series cannot be opened.

    Examples
    --------
    >>> import toposcope as ts
    >>> ts.audit("runs/")                                          # doctest: +SKIP
    51 checkpoints of 3 runs: nothing found
    """
    from toposcope.sources import audit as look

    opened = _opened(series)
    found = look(opened, cheap=cheap, quiet=quiet)
    return Audit(len(opened), len(opened.runs), tuple(found))


def measure(
    series: Where,
    store: str | Path,
    *,
    features: str | Sequence[str | Probe] = "cheap",
    preset: str = "default",
    texts: str | Path | None = None,
    landscape: LandscapeOptions | None = None,
    jobs: int = 1,
    diagrams: bool = False,
    quiet: bool = True,
) -> Store:
    """Measure every checkpoint into a store, its weights or its loss surface; nothing is measured twice.

    Parameters
    ----------
    series
        A `Series`, or anything that `open_series` opens.
    store
        The store's folder, made when it is not there.
    features
        "cheap", "all", names of weight probes separated by commas, or a list of names and of your own probes;
        "landscape" for the loss surface, or its probes (sharpness, curvature, surface, paths, retrain).
    preset
        "default", or "seed004" for the weight-space paper's conventions.
    texts
        What the loss surface is a loss on: a file with a text on each line, or what `load_texts` takes;
        without it, run folders read what their training held out.
    landscape
        How the loss surface is measured.
    jobs
        Processes that measure side by side.
    diagrams
        Keep the persistence diagrams, too.

    Raises
    ------
    InputError
        When nothing could be measured, a feature is unknown, or the store was made with other settings.

    Examples
    --------
    >>> import toposcope as ts
    >>> store = ts.measure("runs/", "store", features="rips,baselines", jobs=2)        # doctest: +SKIP
    """
    from toposcope.probes.registry import weight_probes
    from toposcope.probes.weights.options import preset as preset_options
    from toposcope.store import Store
    from toposcope.sweep import Execution, sweep

    asked = features.split(",") if isinstance(features, str) else list(features)
    names = [one.strip() for one in asked if isinstance(one, str)]
    own = [one for one in asked if not isinstance(one, str)]
    given: Series
    if {*names} & {"landscape", *LANDSCAPE_PROBES}:
        given = _opened(series)
        study = _landscape_study(names, texts, store, landscape, given)
        probes, recipe = [*study.probes(), *own], study.recipe()
    else:
        options = preset_options(preset)
        given = _opened(series, split=options.split)
        probes, recipe = [*(weight_probes(names, options) if names else []), *own], options.recipe()
    opened = Store.create(store, recipe=recipe)
    execution = Execution(jobs=jobs, keep_diagrams=diagrams, quiet=quiet)
    result = sweep(given, probes, opened, execution=execution)
    if result.failures and opened.features().empty:
        first = result.failures[0]
        raise InputError(f"nothing could be measured: run {first.run} step {first.step}: {first.note}")
    return opened


def _landscape_study(
    names: Sequence[str],
    texts: str | Path | None,
    store: str | Path,
    options: LandscapeOptions | None,
    series: Series,
) -> LandscapeStudy:
    """Return what is measured of the loss surface, refused where it costs too much."""
    from toposcope.probes.landscape.options import LandscapeOptions
    from toposcope.probes.landscape.study import study_of_texts

    source = None if texts is None else str(texts)
    study = study_of_texts(options or LandscapeOptions(), source, Path(store), features=names).of(series)
    study.cost(series)
    return study


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
    from toposcope.analysis.analysis import Analysis, analyze
    from toposcope.report.page import check_target
    from toposcope.report.write import TITLE, problems_of, write_studies

    check_target(Path(out))
    if not isinstance(source, Analysis):
        source = analyze(source, targets=() if target is None else target, scores=scores)
    page = write_studies(source.studies, out, title=TITLE if title is None else title)
    return Report(page, source, problems_of(source.studies))


def compare(
    first: Where,
    second: Where,
    *,
    step: int | None = None,
    preset: str = "default",
    points: int | None = None,
    draws: int | None = None,
    step_pattern: str | None = None,
) -> Comparison:
    """Compare the weights of two checkpoints, layer by layer: the second minus the first.

    Parameters
    ----------
    first, second
        A checkpoint, or a series with one run, each.
    step
        Compare at this step; by default at the last of each.
    points, draws
        Rows of a subsampled cloud, and replicates of the subsample.
    step_pattern
        How file names state the step, as `open_series` takes it.

    Raises
    ------
    InputError
        When one of them holds several runs or lacks the step.

    Examples
    --------
    >>> import toposcope as ts
    >>> ts.compare("base/", "tuned/").table                        # doctest: +SKIP
    """
    from toposcope.probes.weights.options import preset as preset_options
    from toposcope.sweep.compare import compare as both

    options = preset_options(preset, points=points, draws=draws)
    sides = [
        _checkpoint(_opened(side, split=options.split, step_pattern=step_pattern), str(side), step)
        for side in (first, second)
    ]
    labels = [f"{checkpoint.run} step {checkpoint.step}" for _, checkpoint in sides]
    return Comparison(labels[0], labels[1], both(*sides, options=options))


def _opened(series: Where, *, split: str = "table", step_pattern: str | None = None) -> Series:
    from toposcope.sources import Series, open_series

    if isinstance(series, Series):
        return series
    uris = [str(series)] if isinstance(series, str | Path) else [str(uri) for uri in series]
    return open_series(uris, split=split, step_pattern=step_pattern)


def _checkpoint(series: Series, uri: str, step: int | None) -> tuple[Series, Checkpoint]:
    checkpoints = list(series)
    runs = sorted({checkpoint.run for checkpoint in checkpoints})
    if len(runs) > 1:
        raise InputError(f"{uri} holds {len(runs)} runs ({', '.join(runs[:5])}); name one of them")
    if step is None:
        return series, checkpoints[-1]
    found = [checkpoint for checkpoint in checkpoints if checkpoint.step == step]
    if not found:
        raise InputError(
            f"--step {step}: {uri} has the steps {checkpoints[0].step} to {checkpoints[-1].step}"
        )
    return series, found[0]
