"""Does the shape of the loss surface follow the loss, beyond their common trend? A small study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.forms import interval
from toposcope.core.lines import curve
from toposcope.core.types import Scope
from toposcope.sources import open_series
from toposcope.store import Store, over_draws
from toposcope.studies.claims import Claim, Standing, beyond_drift, claims_section, of_verdict
from toposcope.studies.sections import Section
from toposcope.study import trend_table
from toposcope.study.analysis import analysis_of
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.landscape import RULE, LandscapeOptions, shares, study_of_texts

OPTIONS = LandscapeOptions(batches=2, draws=2, eigenvalues=1, products=40, vectors=4, steps=15, layers=False)
"""Two batches and two direction seeds: four surfaces of each range at every checkpoint."""
CHECKPOINTS = 26
"""With fourteen, the test on innovations had too few points to choose a trend."""
LEVEL = 0.05
"""The conventional level of a test."""
QUESTIONS = (
    ("surface/minima", "minima"),
    ("surface/average_persistence", "average persistence"),
    ("curvature/top_eigenvalue", "top eigenvalue"),
    ("sharpness/critical_sharpness", "critical sharpness"),
)


def log_steps(steps: list[int], count: int = CHECKPOINTS) -> list[int]:
    """Return `count` of the steps, including both ends, roughly evenly spaced in log(1 + step / first step).

    >>> log_steps([0, 10, 20, 30, 40, 80, 160], 4)
    [0, 20, 40, 160]
    """
    ordered = sorted(steps)
    if len(ordered) <= count:
        return ordered
    places = np.log1p(np.array(ordered, dtype=float) / max(ordered[1], 1))
    wanted = np.linspace(places[0], places[-1], count)
    chosen: list[int] = []
    for target in wanted:
        free = [i for i in range(len(ordered)) if i not in chosen]
        chosen.append(min(free, key=lambda i: (abs(places[i] - target), i)))
    return [ordered[i] for i in sorted(chosen)]


def measure(
    runs: str | Sequence[str], store: Path, *, texts: str | None = None, jobs: int = 1, quiet: bool = True,
    options: LandscapeOptions = OPTIONS, checkpoints: int = CHECKPOINTS,
) -> Store:  # fmt: skip
    """Measure `checkpoints` checkpoints of every run, roughly evenly spaced in log step; resumable.

    Files that contain only weights are read as models of the recipe `seed004`.

    Raises
    ------
    InputError
        With the cause, when every unit failed.
    """
    from toposcope.models import ModelLoader
    from toposcope.recipes import load_training_recipe
    from toposcope.sweep import Execution, sweep

    series = open_series(runs)
    steps = log_steps(sorted({at.step for at in series}), checkpoints)
    chosen = open_series(runs, steps=",".join(map(str, steps)))
    loader = ModelLoader(recipe=load_training_recipe("seed004"))
    names = tuple(column.split("/")[0] for column, _ in QUESTIONS)
    study = study_of_texts(options, texts, store, features=names, loader=loader, min_chars=options.length)
    study.cost(chosen)
    opened = Store.create(store, recipe=study.recipe())
    report = sweep(chosen, study.probes(), opened, execution=Execution(jobs=jobs, quiet=quiet, audit=False))
    if report.failures and not report.done and not report.skipped:
        raise InputError(f"nothing could be measured: {report.failures[0].note}")
    return opened


def sections(store: Store) -> list[Section]:
    """Return the study's tables: the answer first, then the surfaces and how the numbers moved."""
    study = analysis_of(store).studies[0]
    return [claims_section(_claims(study)), _answer(study), _surfaces(study), _moved(study)]


def _claims(study: Study) -> list[Claim]:
    """Judge for every feature whether it follows the loss, and whether it does so beyond the drift."""
    columns = [column for column, _ in QUESTIONS if column in study.series.values]
    if not study.target or not columns:
        return []
    trends = trend_table(study.series, targets=[study.target], columns=columns, every=True)
    families = study.families[study.families["target"] == study.target].set_index("column")
    claims = []
    for column, label in QUESTIONS:
        if column not in columns or column not in families.index:
            continue
        mine, line = trends[trends["column"] == column], families.loc[[column]].to_dict("records")[0]
        rho = mine["spearman"].dropna()
        there = int((mine["naive_p"] < LEVEL).sum())
        claims.append(
            Claim(
                text=f"The {label} of the loss surface moves with the {study.labels.label(study.target)}",
                source="expected",
                here=f"rho {rho.min():+.2f} to {rho.max():+.2f}; p < .05 by rank correlation in {there} of "
                f"{len(mine):,} runs"
                if len(rho)
                else "no run has enough checkpoints",
                statistic=beyond_drift(line),
                judgement=of_verdict(2 * there > len(mine), str(line["verdict"]))
                if np.isfinite(line["p_holm"])
                else Standing.UNTESTED,
            )
        )
    return claims


def _answer(study: Study) -> Section:
    """Return the test of every feature over all runs."""
    mine = study.families[study.families["target"] == study.target].set_index("column")
    rows: list[tuple[object, ...]] = []
    for column, label in QUESTIONS:
        if column not in mine.index:
            rows.append((label, "not measured", None, None, None, None, None))
            continue
        line = mine.loc[[column]].to_dict("records")[0]
        rows.append((
            label, str(line["verdict"]), float(line["r"]), interval(line, "r_low", "r_high", "{:+.2f}"),
            float(line["p_holm"]), float(line["detectable_r"]), str(line["reason"]),
        ))  # fmt: skip
    note = (
        f"One test for each feature over {len(study.runs):,} runs: the correlation of its innovations with "
        f"those of the {study.labels.label(study.target)}, with Holm's correction. Innovations are what a "
        "smooth trend and a series' own past do not explain. The reason says why a verdict is 'cannot tell'."
    )
    columns = ("feature", "verdict", "r", "95%", "p, Holm", "r seen 4 in 5 times", "reason")
    verdict = study.findings.said(study.findings["beyond"]).act
    return Section(f"Does it follow the loss beyond the trend? {verdict}", columns,
                   tuple(rows), note)  # fmt: skip


def _surfaces(study: Study) -> Section:
    table = shares(study.features)
    names = (
        "range and resolution", "surfaces", "trivial", "by run", "mean minima", "most", "branches",
        "confirmed",
    )  # fmt: skip
    rows = [
        (
            line["name"], line["surfaces"], f"{line['trivial']:.0%}",
            f"{line['low']:.0%} to {line['high']:.0%}", line["minima"], line["most"], line["found"],
            line["confirmed"],
        )
        for line in table.to_dict("records")
    ]  # fmt: skip
    note = (
        f"A trivial surface has one minimum. Saddles are minima - 1. Range: {RULE}. A branch is confirmed "
        "if the paired interval of loss(saddle) - loss(minimum) lies above 0 on sequences that were not "
        "used to find it."
    )
    return Section("Minima and branches of the surfaces", names, tuple(rows), note)


def _moved(study: Study) -> Section:
    """Return the first and last value of every feature in every run, with the interval over draws."""
    rows: list[tuple[object, ...]] = []
    for column, label in QUESTIONS:
        probe, feature = column.split("/")
        mine = over_draws(select(study.features, feature, probe=probe, scope=Scope.MODEL))
        for run in study.ordered:
            line = curve(mine, (run,))
            if len(line) > 1:
                first, last = line.iloc[0], line.iloc[-1]
                rows.append(
                    (label, run, *(_with_interval(end) for end in (first, last)), int(first["draws"]))
                )
    note = (
        "Means over batches and direction seeds, with 95% intervals if there are enough draws. Critical "
        "sharpness starts at the second checkpoint."
    )
    return Section(
        "First and last checkpoint", ("feature", "run", "first", "last", "draws"), tuple(rows), note
    )


def _with_interval(line: pd.Series) -> str:
    """Return the mean, and its interval if there are enough draws."""
    if not np.isfinite(line["low"]):
        return f"{line['mean']:.3g}"
    return f"{line['mean']:.3g} [{line['low']:.3g}, {line['high']:.3g}]"
