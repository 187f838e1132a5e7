"""The tables of one study: what is computed about one kind of object, each once, on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd

from toposcope.core.answered import Tables
from toposcope.core.groups import ModelSize, sizes
from toposcope.core.processes import cores, in_background, in_second_process
from toposcope.core.types import Feature, Kind, Scope, Use
from toposcope.logs.belonging import Group
from toposcope.rules.judgement import JudgeOfLog
from toposcope.runs.log_results import LogResults
from toposcope.runs.odd import OddRuns
from toposcope.statistics.trends.descriptive import DEFAULT_DRAWS, Draws
from toposcope.store.draws import is_counted
from toposcope.study._labels import Labels
from toposcope.study.catalogue import column_of
from toposcope.study.convergence import with_unconverged_named
from toposcope.study.finals import finals_table, fits_table, scaling_table
from toposcope.study.findings.base import Question
from toposcope.study.forecasts.compare import COLUMNS as FORECASTS
from toposcope.study.forecasts.compare import WORTH, forecast_table, worth_of_features
from toposcope.study.odd_measured import odd_of_measured
from toposcope.study.own import questions_of, tables_of
from toposcope.study.published import NOTHING, PublishedRules
from toposcope.study.saturation import saturation_table
from toposcope.study.segments import segment_table
from toposcope.study.study_rows import StudyRows
from toposcope.study.table import SeriesTable
from toposcope.study.trends.confounds import confound_table, walk_bound
from toposcope.study.trends.lags import lag_table
from toposcope.study.trends.replicates import replicate_table
from toposcope.study.trends.verdicts import default_columns, family_table, trend_table
from toposcope.subjects.catalogue import declared_features
from toposcope.subjects.subject import TABLE, Subject

Made = TypeVar("Made")

SHOWN = 60
"""Most features whose runs are listed one by one on a page."""

CONTROLS = {"top": Kind.BASELINE, "count": Kind.TOPOLOGY}
"""The plain alternatives to topology: one number of the spectrum, and the number of bars."""

_MUCH = 2e6
"""Tests times squared checkpoints from which a second process is worth its start: over a second of tests.

A test of a feature with a target in a run took .4 ms at 26 checkpoints and .25 s at 1,000."""


@dataclass(frozen=True)
class StudyTables:
    """The tables of one subject; those of `given` are taken as they are, the others are computed once.

    `features`, `metrics`, `runs`, `diagrams` and `audit` are the store's; `series` joins them. Correlations
    are with `target` ("" if there is none); `further` are additional targets. `wanted` are the requested
    features; empty means those of the model and of each role. `kept` is the folder of files beside the rows,
    such as sampled surfaces; `published` are the rules of papers. `alarms` has, for each run, the tests of a
    watch that raised an alarm, and their steps; `judge` judges a run by its log, as a watch does (None: by
    its health alone). `from_logs` has what was computed from the logs already. If other runs of the source
    belong to other groups, `group` is the group of these runs and `among` the study of all; otherwise both
    are None. `read` says which columns of a log were used as step and loss. `places` are the paths of the
    stores or tables and `renamed` their renamed columns, for commands; both are empty for tables in memory.
    `without` are the runs that were left out on request.
    """

    subject: Subject
    series: SeriesTable
    runs: pd.DataFrame
    target: str
    features: pd.DataFrame = field(default_factory=pd.DataFrame)
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    diagrams: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["probe", "dim", "run"]))
    audit: pd.DataFrame | None = None
    provenance: Mapping[str, object] = field(default_factory=dict)
    log: StudyRows | None = None
    targets: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    kept: Path | None = None
    published: PublishedRules = NOTHING
    alarms: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    judge: JudgeOfLog | None = None
    from_logs: LogResults = field(default_factory=LogResults)
    group: Group | None = None
    among: StudyTables | None = None
    read: tuple[str, ...] = ()
    given: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    pattern: str | None = None
    without: tuple[str, ...] = ()

    def once(self, make: Callable[[Self], Made]) -> Made:
        """Return the result of a function of this study, computed once and cached.

        It is for values that several figures show and no table holds, such as the files of `kept`.
        """
        if make not in self._results:
            self._results[make] = make(self)
        result: Made = self._results[make]
        return result

    @cached_property
    def _results(self) -> dict[Callable[..., Any], Any]:
        return {}

    def _made(self, name: str, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        return self.given[name] if name in self.given else make()

    @cached_property
    def own(self) -> Tables:
        """The tables that its subject declares, by name, each computed on first use."""
        return Tables(
            **{table.name: partial(self._own, table.name, table.make) for table in tables_of(self.subject)}
        )

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """The questions that its subject declares, besides those of every study."""
        return questions_of(self.subject)

    def _own(self, name: str, make: Callable[[Self], pd.DataFrame]) -> pd.DataFrame:
        return self._made(name, lambda: self.once(make))

    def _has(self, name: str) -> bool:
        """Return whether a table is there already, given or computed."""
        return name in self.given or name in self.__dict__

    @cached_property
    def labels(self) -> Labels:
        """What the columns are called, and which of them are primary."""
        return Labels(self.series)

    @property
    def judged(self) -> str:
        """The unit of the verdict: a primary feature, or a column of a table."""
        return "column" if self.subject.name == TABLE.name else "primary feature"

    @cached_property
    def whole(self) -> pd.DataFrame:
        """The rows of `features` that are not about a single matrix or head."""
        if "scope" not in self.features:
            return self.features
        return self.features[~self.features["scope"].isin([Scope.MATRIX, Scope.HEAD, Scope.TENSOR])]

    @cached_property
    def sizes(self) -> list[ModelSize]:
        """The model sizes, smallest first, each with its runs."""
        return sizes(self.runs)

    @property
    def has_sizes(self) -> bool:
        """Whether there are models of more than one known size."""
        return len({group.parameters for group in self.sizes if group.parameters > 0}) > 1

    @property
    def has_curves(self) -> bool:
        """Whether any run has more than one checkpoint."""
        return bool((self.series.values.groupby("run")["step"].nunique() > 1).any())

    @cached_property
    def ordered(self) -> list[str]:
        """The runs, smallest model first, the seeds of a size beside each other."""
        return [run for group in self.sizes for run in group.runs]

    @cached_property
    def columns(self) -> list[str]:
        """The features that are analysed."""
        chosen = self.wanted or default_columns(self.series)
        return [column for column in chosen if column not in self.targets]

    @cached_property
    def trends(self) -> pd.DataFrame:
        """Every feature with every target in every run: see `trend_table`."""
        return self._made(
            "trends",
            lambda: trend_table(self.series, targets=list(self.targets), columns=self.columns, every=True),
        )

    @cached_property
    def leading(self) -> pd.DataFrame:
        """The rows of `trends` that pages read: primary features, then what leads; targets with a table."""
        if self._has("trends"):
            return self.trends
        return self._leading(DEFAULT_DRAWS)

    @cached_property
    def strengths(self) -> pd.DataFrame:
        """The rows of `leading` for the sentences: without bootstrap intervals, which are slow."""
        if "leading" in self.__dict__ or self._has("trends"):
            return self.leading
        return self._leading(replace(DEFAULT_DRAWS, block=0))

    def _leading(self, draws: Draws) -> pd.DataFrame:
        columns = self.labels.leading(self.columns, most=SHOWN) or self.columns
        chosen = [name for name in (self.target, *self.further) if name]
        return trend_table(self.series, targets=chosen, columns=columns, draws=draws)

    @cached_property
    def bends(self) -> pd.DataFrame:
        """The rows of `segments` that findings and pages use: the columns whose changes are reported."""
        columns = self.leads(Use.CHANGE) or self.labels.primary()[:4]
        return self._made("segments", lambda: segment_table(self.series, columns=columns))

    @cached_property
    def families(self) -> pd.DataFrame:
        """Every feature with every target over all runs: one test each, which carries the verdict."""
        at_work = self.__dict__.get("_judging")
        family_rows = self._made("families", self._judge if at_work is None else at_work.result)
        return with_unconverged_named(family_rows, self.features, self.series.values)

    @cached_property
    def _judging(self) -> Future[pd.DataFrame]:
        return in_second_process(self._judge)

    @property
    def _judge(self) -> Callable[[], pd.DataFrame]:
        return partial(family_table, self.series, targets=list(self.targets), columns=self.columns)

    @cached_property
    def confounds(self) -> pd.DataFrame:
        """Correlations given one number that needs no topology, where the store has it."""
        return self._made("confounds", self._confounds)

    def _confounds(self) -> pd.DataFrame:
        kinds = self.series.catalogue.set_index("column")["kind"]
        of_kind = {str(kinds[column]): column for column in reversed(self.leads(Use.CONTROL))}
        controls = {name: of_kind[kind] for name, kind in CONTROLS.items() if kind in of_kind}
        names = [self.target, *self.further] if self.target else list(self.further)
        if not controls or not names:
            return pd.DataFrame()
        tables = [confound_table(self.series, t, self.columns, controls).assign(target=t) for t in names]
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def replicates(self) -> pd.DataFrame:
        """Every feature across training replicates; empty without any."""
        return self._made(
            "replicates",
            lambda: replicate_table(self.series, targets=list(self.targets), columns=self.columns),
        )

    @cached_property
    def lags(self) -> pd.DataFrame:
        """Leads and lags of innovations."""
        return self._made(
            "lags", lambda: lag_table(self.series, targets=list(self.targets), columns=self.columns)
        )

    @cached_property
    def phases(self) -> pd.DataFrame:
        """The starts of phases by the published rules; empty without rules."""
        return self._made("phases", lambda: self.published.phases(self.series, self.columns))

    @cached_property
    def segments(self) -> pd.DataFrame:
        """Stretches of constant slope on log step, with the interval of each bend."""
        return self._made("segments", lambda: segment_table(self.series, columns=self.columns))

    @cached_property
    def saturation(self) -> pd.DataFrame:
        """Saturating fits of every feature."""
        return self._made("saturation", lambda: saturation_table(self.series, columns=self.columns))

    @cached_property
    def scaling(self) -> pd.DataFrame:
        """Power laws of last values with model size."""
        return self._made("scaling", lambda: scaling_table(self.series, columns=list(self.wanted) or None))

    @cached_property
    def exponents(self) -> pd.DataFrame:
        """Exponents predicted from features, every family or run left out."""
        from toposcope.study.recover import exponent_recovery

        return self._made("exponents", lambda: exponent_recovery(self.series))

    @cached_property
    def finals(self) -> pd.DataFrame:
        """The leading quantities at every run's last checkpoint."""
        wanted = [self.target, *self.leads(Use.END)]
        present = [name for name in dict.fromkeys(wanted) if name in self.series.values]
        return self._made("finals", lambda: finals_table(self.series, present))

    @cached_property
    def fits(self) -> pd.DataFrame:
        """Power laws of the leading quantities."""
        return self._made("fits", lambda: fits_table(self.finals))

    def begin(self) -> None:
        """Begin to forecast in a thread and, for many features, to judge them in a second process."""
        if not self._has("forecasts"):
            _ = self._forecasting
        tests = len(self.columns) * len(self.targets) * len(self.series.run_names)
        length = self.series.values.groupby("run").size().max() if tests else 0
        if tests * length**2 >= _MUCH and cores() > 1 and not self._has("families"):
            _ = self._judging

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """Every finished run's final loss from the others; empty where no loss was logged."""
        at_work = self.__dict__.get("_forecasting")
        return self._made("forecasts", self._forecast if at_work is None else at_work.result)

    @cached_property
    def _forecasting(self) -> Future[pd.DataFrame]:
        return in_background(self._forecast)

    def _forecast(self) -> pd.DataFrame:
        if self.log is None or "loss" not in self.series.targets:
            return pd.DataFrame(columns=list(FORECASTS))
        return forecast_table(self.log, published=self.published.forecasters, results=self.from_logs)

    @cached_property
    def forecast_effects(self) -> pd.DataFrame:
        """What features add to a forecast, paired by run."""
        return self._made("forecast_effects", lambda: effects_of(self.forecasts, self.published.controls))

    @cached_property
    def chance(self) -> float:
        """The |rho| that 5% of pairs of random walks of this length exceed."""
        counted = self.strengths["n"].max() if len(self.strengths) else np.nan
        return walk_bound(int(counted)) if np.isfinite(counted) else float("nan")

    @cached_property
    def odd(self) -> OddRuns:
        """Which runs are not like their siblings, those with another setting included."""
        whole = self.among or self
        odd_runs = odd_of_measured(
            whole.series, whole.labels.primary(), whole.features, whole.log, whole.subject.name
        )
        return odd_runs.of(self.series.run_names)

    def has(self, feature: str, *, probe: str) -> bool:
        """Return whether a probe measured a feature of this name with a value that counts."""
        if not len(self.features):
            return False
        mine = (self.features["probe"] == probe) & (self.features["feature"] == feature)
        return bool(is_counted(self.features[mine]).any())

    def leads(self, use: Use) -> list[str]:
        """Return the columns that represent this subject in a use, in the order of their places."""
        return self.series.leads(use, self.subject.name)

    def brought(self, use: Use) -> list[str]:
        """Return the leading columns of probes of other packages; no figure here is made for them."""
        probe = self.series.catalogue.set_index("column")["probe"]
        return [column for column in self.leads(use) if probe[column] not in declared_features()]

    def column(self, probe: str, feature: Feature) -> str:
        """Return the column that represents a feature for the whole model; "" if there is none."""
        return column_of(self.series.catalogue, probe, feature.name)


def effects_of(scores: pd.DataFrame, controls: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return what features add to these forecasts; empty where none was made."""
    return worth_of_features(scores, controls=controls) if len(scores) else pd.DataFrame(columns=list(WORTH))
