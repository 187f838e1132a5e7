"""The loss curve of a run of a log, with its plan and what the rules say of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.logs import facts
from toposcope.logs.curve import Curve, curve_from_metrics
from toposcope.logs.described import metric_columns
from toposcope.logs.objective import companions, described, objective_of
from toposcope.logs.plans import StatedPlan, recipe_schedule, stated_plan
from toposcope.logs.remarks import Remark
from toposcope.logs.run import Run
from toposcope.logs.schedule import Schedule
from toposcope.rules.registry import assess as assess_log


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a run, and whether the run is left out because of it.

    `applies` is False for a run that has no problem, but whose loss has no trend to forecast.
    """

    run: str
    reason: str
    left_out: bool = True
    applies: bool = True


def curve_of(
    run: Run,
    *,
    column: str = "loss",
    horizon: int | None = None,
    schedule: Schedule | None = None,
    assess: Callable[..., Sequence[Remark]] = assess_log,
) -> tuple[Curve | None, list[Problem]]:
    """Return the loss curve of a run, None if it cannot be built, and what is wrong with its log.

    Its horizon is the given one, the end of its schedule, or the steps of its training recipe (in
    `run.config`); else its last step. Its schedule is the given one or the recipe's cosine. `assess` returns
    what the rules say of a log.

    A loss without a trend (`logs.objective`), such as that of a policy, has no curve.
    """
    if why := without_trend(run.table, column):
        return None, [Problem(run.name, why, applies=False)]
    rows, problems = without_infinities(run.table, run.name, metric_columns(run.table, column))
    try:
        plan = stated_plan(run.config, rows) if horizon is None and schedule is None else StatedPlan()
        schedule = schedule or recipe_schedule(run.config) or plan.schedule
        end = horizon or (None if schedule is not None else plan.end)
        curve = curve_from_metrics(
            run.name, rows, horizon=end, schedule=schedule, parameters=run.parameters, column=column,
            features=run.features,
        )  # fmt: skip
    except InputError as error:
        return None, [*problems, Problem(run.name, str(error))]
    anneals = _anneals(curve)
    stated = end is not None or schedule is not None
    ended = stated and curve.finished
    remarks = assess(
        rows, column=column, horizon=curve.horizon, anneals=anneals, ended=ended, replaced=run.replaced,
        restarts=run.restarts, error=run.error,
    )  # fmt: skip
    if conflict := run.config.get("step_conflict"):
        problems.append(Problem(run.name, f"{conflict}; is it another run's?", left_out=False))
    return replace(
        curve, notes=(*curve.notes, *plan.notes), covariates=_tokens_per_step(rows, run.config),
        remarks=tuple(remarks), topology=run.topology, facts=facts.stated({"config": run.config}),
        stated=stated,
    ), problems  # fmt: skip


def without_trend(rows: pd.DataFrame, column: str) -> str:
    """Return why a loss has no level that should fall, in one clause; empty if it has one."""
    objective = objective_of(rows, column)
    if objective.has_trend:
        return ""
    return f"{described(objective, companions(rows, column))}; a forecast does not apply"


def _anneals(curve: Curve) -> bool:
    """Return whether the planned learning rate will still fall."""
    if curve.schedule is None or curve.finished:
        return False
    ahead = curve.schedule.at(np.linspace(curve.last, curve.horizon, 50))
    return bool(ahead.min() < 0.9 * ahead[0])


def _tokens_per_step(rows: pd.DataFrame, config: Mapping[str, object]) -> dict[str, float]:
    """Return {"tokens_per_step": median} where the log counts tokens, or the trainer's state does."""
    stated = config.get("tokens_per_step")
    if isinstance(stated, int | float) and stated > 0:
        return {"tokens_per_step": float(stated)}
    seen, steps = config.get("tokens_seen"), config.get("trained_steps")
    if isinstance(seen, int | float) and isinstance(steps, int | float):
        return {"tokens_per_step": seen / steps}
    if "tokens" not in rows or rows["tokens"].notna().sum() < 2:
        return {}
    finite = rows.dropna(subset=["tokens"]).sort_values("step")
    slope = finite["tokens"].diff() / finite["step"].diff()
    middle = float(slope[slope > 0].median())
    return {"tokens_per_step": middle} if middle > 0 else {}


def without_infinities(
    table: pd.DataFrame, run: str | None = None, columns: Collection[str] | None = None
) -> tuple[pd.DataFrame, list[Problem]]:
    """Return a table with NaN for infinities, and a problem for each run and column with some.

    Without `run` the table has a column of that name; `columns` are by default all others.
    """
    numeric = [
        name
        for name in (table.columns if columns is None else columns)
        if name != "run" and pd.api.types.is_numeric_dtype(table[name])
    ]
    infinite = {c: lost for c in numeric if (lost := table[c].astype(float).abs() == np.inf).any()}
    if not infinite:
        return table, []
    names = table["run"] if run is None else pd.Series(run, table.index, dtype=object)
    problems = [
        Problem(str(run_name), f"{count:,} infinite values of {column!r} left out", left_out=False)
        for column, lost in infinite.items()
        for run_name, count in lost.groupby(names, sort=False).sum().items()
        if count
    ]
    if not problems:
        return table, problems
    return table.assign(**{str(c): table[c].mask(lost) for c, lost in infinite.items()}), problems
