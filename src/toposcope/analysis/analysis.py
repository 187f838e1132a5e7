"""The analysis of a store, a table or a CSV file: read once, every table and finding from one place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.analysis.derived import with_derived
from toposcope.analysis.findings import words
from toposcope.analysis.forecast.frame import Log, log_from_frame
from toposcope.analysis.hidden import PROBE
from toposcope.analysis.joined import Source, apart, joined
from toposcope.analysis.plain import plain_table
from toposcope.analysis.published import NOTHING, PublishedRules
from toposcope.analysis.study import Study, chosen_targets, problems_of, why_nothing
from toposcope.analysis.subjects import LANDSCAPE, REPRESENTATIONS, TABLE, WEIGHTS, Subject, rows_of
from toposcope.analysis.table import SeriesTable, series_table, with_targets
from toposcope.analysis.target import chosen_target
from toposcope.analysis.targets import read_targets
from toposcope.errors import InputError, did_you_mean
from toposcope.probes.weights.features import RIPS
from toposcope.sources.history import renamed
from toposcope.sources.losses import read_table
from toposcope.store import Store
from toposcope.tabular import Tables
from toposcope.types import Scope

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from toposcope.analysis.findings import Findings

PARTS = (
    "families", "trends", "replicates", "lags", "phases", "segments", "saturation", "scaling", "exponents",
    "forecasts", "forecast_effects",
)  # fmt: skip
"""Tables that an analysis has by name; `problems` and `findings` stand beside them."""
USUAL = ("families", "trends", "replicates", "phases", "scaling", "forecasts", "forecast_effects")
_BY_COST = (
    "families", "forecasts", "forecast_effects", "scaling", "replicates", "phases", "exponents",
    "saturation", "segments", "lags", "trends",
)  # fmt: skip
"""The tables of `PARTS` in the order in which they are asked whether they hold a result."""


@dataclass(frozen=True)
class Analysis:
    """What a series' features tell beyond its losses: tables, findings, figures, all computed on demand.

    `studies` holds one study for each kind of measurement: weights, gradients, representations, or a table.
    Every table of `PARTS` is an attribute, the rows of all studies below one another; `findings` are those of
    the first study, `all_findings` of every one.

    Examples
    --------
    >>> import numpy as np
    >>> step = np.arange(0, 2000, 50)
    >>> frame = pd.DataFrame({"step": step, "loss": 5 * (step + 100.0) ** -0.3, "mine": np.log(step + 50.0)})
    >>> analysis = analysis_of(frame)
    >>> analysis.trends[["column", "target"]].drop_duplicates().iloc[0].tolist()
    ['mine', 'loss']
    """

    studies: tuple[Study, ...]

    def table(self, name: str) -> pd.DataFrame:
        """Return the table called `name`, one of `PARTS`.

        Raises
        ------
        InputError
            When there is no such table.
        """
        if name not in PARTS:
            raise InputError(f"no table {name!r}; there are {', '.join(PARTS)}")
        made = [getattr(study, name) for study in self.studies]
        filled = [part for part in made if len(part)]
        return pd.concat(filled, ignore_index=True) if len(filled) > 1 else (filled or made)[0]

    @property
    def tables(self) -> Tables:
        """Every table of `PARTS` by name, computed when it is asked for."""
        return Tables(**{name: partial(self.table, name) for name in PARTS})

    @property
    def families(self) -> pd.DataFrame:
        """One test for each target and feature over all runs: what the verdict rests on."""
        return self.table("families")

    @property
    def trends(self) -> pd.DataFrame:
        """Every run, target and feature: correlations and what drift leaves of them."""
        return self.table("trends")

    @property
    def replicates(self) -> pd.DataFrame:
        """Every feature across training replicates."""
        return self.table("replicates")

    @property
    def lags(self) -> pd.DataFrame:
        """Leads and lags of innovations."""
        return self.table("lags")

    @property
    def phases(self) -> pd.DataFrame:
        """Where the published rules see phases begin."""
        return self.table("phases")

    @property
    def segments(self) -> pd.DataFrame:
        """Stretches of constant slope on log step."""
        return self.table("segments")

    @property
    def saturation(self) -> pd.DataFrame:
        """Saturating fits."""
        return self.table("saturation")

    @property
    def scaling(self) -> pd.DataFrame:
        """Power laws of last values with model size."""
        return self.table("scaling")

    @property
    def exponents(self) -> pd.DataFrame:
        """Exponents predicted from features."""
        return self.table("exponents")

    @property
    def forecasts(self) -> pd.DataFrame:
        """Every finished run's final loss, forecast from the others."""
        return self.table("forecasts")

    @property
    def forecast_effects(self) -> pd.DataFrame:
        """What features add to a forecast, paired by run."""
        return self.table("forecast_effects")

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What of the logs and targets was left out, merged or missing, and which runs failed."""
        return problems_of(self.studies)

    @property
    def findings(self) -> Findings:
        """What may be said on the first study, question by question."""
        return self.studies[0].findings

    @property
    def all_findings(self) -> tuple[Findings, ...]:
        """What may be said on every study."""
        return tuple(study.findings for study in self.studies)

    def longest_grid(self) -> np.ndarray:
        """Return the steps of the run with most checkpoints."""
        grids = [
            rows["step"].to_numpy(float) for s in self.studies for _, rows in s.series.values.groupby("run")
        ]
        return max(grids, key=len)

    def nearest_grid(self) -> str:
        """Return the packaged grid of steps whose error rates are known: the nearest to the longest run's."""
        from toposcope.analysis.trends.calibration import nearest_grid

        return nearest_grid(self.longest_grid())

    def calibrated(self, *, draws: int = 10_000, quiet: bool = True) -> pd.DataFrame:
        """Simulate the nulls at the longest run's steps: how often each test is wrong there.

        Each test's rate of rejection (`rate`, with its standard `error`) in every case (`kind` "null",
        "blind", "fresh" or "planted"): see `toposcope.analysis.calibration_matrix`. 10,000 draws take
        minutes.

        Raises
        ------
        InputError
            With fewer than 12 checkpoints.

        Examples
        --------
        >>> frame = pd.DataFrame({"step": range(12), "loss": range(12, 0, -1), "mine": range(12)})
        >>> rates = analysis_of(frame).calibrated(draws=100)
        >>> sorted(set(rates["kind"])), bool(rates["rate"].between(0, 1).all())
        (['blind', 'fresh', 'null', 'planted'], True)
        """
        from toposcope.analysis.trends.calibration import calibration_matrix

        return calibration_matrix(self.longest_grid(), draws=draws, quiet=quiet)

    def refuse_nothing(self, parts: Sequence[str]) -> None:
        """Raise InputError where none of these tables holds a result."""
        if "trends" in parts and any(_holds_something(study.strengths) for study in self.studies):
            return  # a part of the trends: the whole of them takes most of an analysis' time
        cheapest = [name for name in _BY_COST if name in parts]
        if not any(_holds_something(self.table(name)) for name in cheapest):
            raise InputError(f"nothing could be computed: {why_nothing(self.studies[0])}")

    def to_json(self, parts: Sequence[str] = USUAL) -> dict[str, object]:
        """Return the findings, these tables as records, and the problems, as plain data."""
        said = [found.as_data() for found in self.all_findings]
        made = {name: self.table(name).to_dict("records") for name in parts}
        return {"findings": said, **made, "problems": list(self.problems)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the correlation of innovations of what the verdict judges, and return the axes."""
        from toposcope.figures.verdict import draw_verdict

        return draw_verdict(self.studies[0], ax)

    def __repr__(self) -> str:
        """Return the answer in words, at most 15 lines of 80 columns for each study."""
        return "\n\n".join(words.as_text(found) for found in self.all_findings)

    def _repr_html_(self) -> str:
        return "".join(words.as_html(found) for found in self.all_findings)


def analysis_of(
    source: Source | Sequence[Source],
    *,
    targets: str | Sequence[str] = (),
    columns: Sequence[str] = (),
    scores: str | Path | pd.DataFrame | None = None,
    rename: Mapping[str, str] | None = None,
    published: PublishedRules = NOTHING,
    alarms: Mapping[str, Sequence[tuple[str, float]]] | None = None,
) -> Analysis:
    """Read what `toposcope.analyze` is given; `published` are the rules of papers that stand beside the rest.

    `alarms` are those of a watch: tests and steps by run, as figures mark them.

    Raises
    ------
    InputError
        When there is nothing measured, a target or a column is not there, or two stores hold the same
        kind of measurement by different recipes.
    """
    named = (targets,) if isinstance(targets, str) else tuple(targets)
    read = read_targets(Path(scores)) if isinstance(scores, str | Path) else scores
    given = [source] if isinstance(source, Store | str | Path | pd.DataFrame) else list(source)
    with joined(given) as sources:
        made = [
            study for one in sources for study in _studies(one, named, tuple(columns), read, rename or {})
        ]
    studies = [replace(study, published=published, alarms=alarms or {}) for study in made]
    names = [study.subject.name for study in studies]
    if len(set(names)) < len(names):
        listed = ", ".join(str(one.path if isinstance(one, Store) else one) for one in given)
        how = f" ({differ})" if (differ := apart(given)) else ""
        raise InputError(
            f"{listed}: two hold the same kind of measurement, made otherwise{how}; report them apart"
        )
    return Analysis(tuple(studies))


def _studies(
    source: Source, targets: tuple[str, ...], columns: tuple[str, ...], scores: pd.DataFrame | None,
    rename: Mapping[str, str],
) -> list[Study]:  # fmt: skip
    if isinstance(source, pd.DataFrame):
        return [_of_table(renamed(source, rename, "source"), "run", targets, columns, scores)]
    if isinstance(source, str | Path) and Path(source).is_file():
        table = renamed(read_table(Path(source)), rename, str(source))
        return [_of_table(table, Path(source).stem, targets, columns, scores)]
    store = source if isinstance(source, Store) else Store.open(source)
    features = store.features().drop(columns=["content_hash", "recipe_hash"])
    if features.empty:
        path = store.path
        raise InputError(f"{path} has no measured features; run: toposcope weights SERIES --out {path}")
    metrics, runs, audit, declared = store.metrics(), store.runs(), store.audit(), store.catalogue()
    stated = dict(json.loads((store.path / "store.json").read_text()))
    return [
        study_of_rows(
            subject, rows, metrics, runs, catalogue=declared,
            diagrams=_diagrams(store, subject),
            audit=audit, provenance=stated, targets=targets, columns=columns, scores=scores,
            kept=store.path / "landscapes" if subject is LANDSCAPE else None,
        )
        for subject, rows in rows_of(features, declared)
    ]  # fmt: skip


def _diagrams(store: Store, subject: Subject) -> pd.DataFrame | None:
    """Return the kept diagrams that the page of a subject draws."""
    if subject is REPRESENTATIONS:
        return store.diagrams(probe=PROBE)
    return store.diagrams(probe=RIPS, scope=Scope.POOLED) if subject is WEIGHTS else None


def study_of_rows(
    subject: Subject,
    features: pd.DataFrame,
    metrics: pd.DataFrame | None,
    runs: pd.DataFrame,
    *,
    catalogue: pd.DataFrame | None = None,
    diagrams: pd.DataFrame | None = None,
    audit: pd.DataFrame | None = None,
    provenance: dict[str, object] | None = None,
    targets: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    scores: pd.DataFrame | None = None,
    kept: Path | None = None,
) -> Study:
    """Return the study of long rows with a store's columns; `catalogue` is what their probes declare."""
    rows = with_derived(features, catalogue)
    series = series_table(rows, metrics, runs, targets=scores, catalogue=catalogue)
    brought = () if scores is None else tuple(dict.fromkeys(scores["target"]))
    logged = pd.DataFrame() if metrics is None else metrics
    if not len(logged) and subject.by_itself:  # states are read for themselves: no loss is missed
        series = _without(series, "no metrics")
    log = Log(logged, runs, features=features, catalogue=catalogue) if len(logged) else None
    return _study(
        subject, series, targets, columns, brought, features=rows, metrics=logged, audit=audit,
        provenance=provenance or {}, log=log, kept=kept,
        **({} if diagrams is None else {"diagrams": diagrams}),
    )  # fmt: skip


def _of_table(
    frame: pd.DataFrame, name: str, targets: tuple[str, ...], columns: tuple[str, ...],
    scores: pd.DataFrame | None,
) -> Study:  # fmt: skip
    brought = () if scores is None else tuple(dict.fromkeys(scores["target"]))
    series = plain_table(frame, [target for target in targets if target not in brought])
    series = series if scores is None else with_targets(series, scores)
    try:
        log = log_from_frame(frame, name=name)
    except InputError:  # no loss to forecast
        log = None
    return _study(TABLE, series, targets, columns, brought, log=log)


def _study(
    subject: Subject, series: SeriesTable, targets: tuple[str, ...], columns: tuple[str, ...],
    brought: tuple[str, ...], **tables: object,
) -> Study:  # fmt: skip
    absent = [column for column in columns if column not in series.values]
    if absent and absent[0] in series.left_out:
        raise InputError(
            f"column {absent[0]!r} is {series.left_out[absent[0]]}: it says nothing of its own; name another "
            f"column ({', '.join(series.columns()[:6]) or 'there is none'}), or test it as a target"
        )
    if absent:
        raise InputError(
            f"{absent[0]!r} is not in the table; targets: {', '.join(series.targets) or 'none'}; "
            f"features: {', '.join(series.columns(scope='model')[:6])}, ..."
            + did_you_mean(absent[0], [*series.targets, *series.columns()])
        )
    asked = tuple(chosen_target(series, name, preferred=()) for name in targets)
    preferred = (*series.losses, *subject.targets) if subject.by_itself else subject.targets
    target = asked[0] if asked else chosen_target(series, None, preferred=preferred)
    chosen, further = chosen_targets(series, subject, target, asked, brought)
    return Study(
        subject, series, complete_runs(series), target, targets=chosen, further=further, wanted=columns,
        **tables,  # type: ignore[arg-type]
    )  # fmt: skip


def complete_runs(series: SeriesTable) -> pd.DataFrame:
    """Return the runs table with a line for every run that has features, in the order of their size."""
    wanted = ["run", "family", "parameters", "seed", "schedule", "corpus", "uri"]
    known = series.runs.reindex(columns=wanted).drop_duplicates("run").set_index("run")
    known = known.reindex(series.run_names).reset_index()
    known["family"] = known["family"].astype(object).where(known["family"].notna(), "").astype(str)
    known["parameters"] = known["parameters"].fillna(0).astype(int)
    return known


def _without(series: SeriesTable, words: str) -> SeriesTable:
    return replace(series, problems=tuple(line for line in series.problems if words not in line))


def _holds_something(part: pd.DataFrame) -> bool:
    if "cut" in part and not part["cut"].notna().any():
        return False
    if "verdict" in part and "confirmatory" in part:
        return bool((part["verdict"] != "cannot tell").any())
    return bool((part["status"] != "failed").any()) if "status" in part else len(part) > 0
