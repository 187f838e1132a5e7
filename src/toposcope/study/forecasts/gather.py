"""From the tables of a store to loss curves with their features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.types import Scope, Use
from toposcope.core.wording import option, rendered
from toposcope.forecasting.base import Forecaster
from toposcope.forecasting.kin import with_groups
from toposcope.logs import belonging
from toposcope.logs.curve import Curve, curve_from_metrics
from toposcope.logs.plans import StatedPlan, recipe_schedule, stated_plan
from toposcope.logs.schedule import Schedule
from toposcope.logs.symptoms import Symptom
from toposcope.rules.assess import health
from toposcope.store.draws import counted, is_counted, over_draws
from toposcope.study.catalogue import leading_features
from toposcope.study.convergence import without_unconverged
from toposcope.study.forecasts.topology import FeatureTransfer
from toposcope.study.forecasts.vectors import VECTORS, vector_table
from toposcope.study.table import series_table
from toposcope.subjects.catalogue import completed

NORMS = ("weight_norm", "grad_norm")
MOST_FEATURES = 12
"""Columns of a plain table that become features, in the order of their names."""

_GRADIENT_WINDOW = 100
"""Logged gradient norms that are averaged."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a run, and whether the run is left out because of it."""

    run: str
    reason: str
    left_out: bool = True


def gather_curves(
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    features: pd.DataFrame | None = None,
    diagrams: pd.DataFrame | None = None,
    wide: pd.DataFrame | None = None,
    horizon: int | None = None,
    schedules: Mapping[str, Schedule] | None = None,
    column: str = "loss",
    catalogue: pd.DataFrame | None = None,
    assess: Callable[..., Sequence[Symptom]] | None = None,
) -> tuple[list[Curve], list[Problem]]:
    """Build one curve per run of the tables (the store's columns); what cannot be built is a problem.

    Features come from the store's long rows (`features`, with `diagrams`) or from a table that is `wide`
    already: run, step and one column each. `catalogue` is what the store's probes declare: their confirmatory
    features are candidates, too. The horizon of a run is the given one, its schedule's end, or the
    steps of its training recipe (in `runs.config`); else its last step. The schedule is the given one or the
    recipe's cosine. `assess` returns the symptoms of a log (by default `health` does).
    """
    curves: list[Curve] = []
    metrics, problems = _without_infinities(metrics)
    known = runs.set_index("run") if len(runs) else pd.DataFrame()
    if wide is None and features is not None and len(features):
        wide = feature_columns(features, diagrams, catalogue)
        problems += _infinite(features)
    if wide is None or not len(wide):
        wide = _at_some_steps(metrics)
    elif wide is not None:
        wide, more = _without_infinities(wide)
        problems += more
    for run, rows in metrics.groupby("run", sort=False):
        info = known.loc[[run]].iloc[0] if run in known.index else None
        config = {} if info is None else belonging.configuration(info.get("config"))
        try:
            plan = stated_plan(config, rows) if horizon is None and not schedules else StatedPlan()
            schedule = (schedules or {}).get(str(run)) or recipe_schedule(config) or plan.schedule
            end = horizon or (None if schedule is not None else plan.end)
            curve = curve_from_metrics(
                str(run),
                rows,
                horizon=end,
                schedule=schedule,
                parameters=_size(info),
                column=column,
                features=_with_norms(wide, rows, str(run)) if wide is not None else None,
            )
        except InputError as error:
            problems.append(Problem(str(run), str(error)))
            continue
        led = topology_in(curve.features.columns, catalogue)
        symptoms = tuple(
            (assess or health)(rows, column=column, horizon=curve.horizon, anneals=_anneals(curve))
        )
        if conflict := config.get("step_conflict"):
            problems.append(Problem(str(run), f"{conflict}; is it another run's?", left_out=False))
        curve = replace(curve, notes=(*curve.notes, *plan.notes))
        tokens = _tokens_per_step(rows, config)
        facts = {} if info is None else belonging.stated(info.to_dict())
        curves.append(replace(curve, covariates=tokens, symptoms=symptoms, topology=led, facts=facts,
                              stated=end is not None or schedule is not None))  # fmt: skip
    return curves, problems


def _anneals(curve: Curve) -> bool:
    """Return whether the planned learning rate will still fall."""
    if curve.schedule is None or curve.finished:
        return False
    ahead = curve.schedule.at(np.linspace(curve.last, curve.horizon, 50))
    return bool(ahead.min() < 0.9 * ahead[0])


def split_runs(
    own: Sequence[Curve], others: Sequence[Curve] = (), *, all_finished: bool = False
) -> tuple[list[Curve], list[Curve]]:
    """Return finished and unfinished runs; an unfinished one without a known end gets that of a sibling.

    A run without a plan is unfinished if it is shorter than the longest finished run. If its log and those of
    its siblings have learning rates, it gets the end of a sibling whose rate it followed (up to a factor); if
    there is none, or if these have different ends, its curve is `endless`. Without learning rates it gets the
    end of the longest sibling. A note names the sibling; runs of other groups are not used (`with_groups`).
    With `all_finished`, a run without a plan ended where its log does.
    """
    everyone = with_groups([*own, *others])
    own, others = everyone[: len(own)], everyone[len(own) :]
    finished = [curve for curve in others if curve.finished]
    unfinished: list[Curve] = []
    for curve in own:
        unplanned = curve.schedule is None and curve.horizon == curve.last
        kin = [c for c in everyone if c is not curve and c.akin(curve)]
        known = [c for c in kin if c.finished]
        longest = max((c.horizon for c in kin), default=0)
        if (
            not all_finished
            and unplanned
            and curve.last < 0.98 * longest
            and any(c.horizon == longest for c in known)
        ):
            curve = _with_end(curve, [c for c in known if c.horizon > curve.last])
        (finished if curve.finished else unfinished).append(curve)
    return finished, unfinished


def _with_end(curve: Curve, longer: Sequence[Curve]) -> Curve:
    """Return the curve with the end of the sibling that it follows, or the reason why no end is known."""
    planned = [(c, plan) for c in longer if (plan := c.plan()) is not None]
    why = "no learning rates can be compared, and it is the longest finished run"
    alike = sorted(longer, key=lambda c: -c.horizon)[:1]
    if planned and np.isfinite(curve.rate).any():
        why = "both have had the same learning rate so far"
        alike = [c for c, plan in planned if _follows(curve, plan)]
        ends = sorted({c.horizon for c in alike})
        unknown = "follows no sibling's"
        if ends and ends[-1] > 1.02 * ends[0]:
            unknown = f"is that of siblings that end at steps {ends[0]:,} and {ends[-1]:,}"
        if not ends or ends[-1] > 1.02 * ends[0]:
            reason = rendered(
                f"end unknown: its learning rate {unknown}; give {option('horizon')} or "
                f"{option('schedule')}, or {option('finished')} if it ended where its log does"
            )
            return replace(curve, endless=reason)
    lender = max(alike, key=lambda c: c.horizon)
    note = f"end assumed at step {lender.horizon:,}, as for {lender.run}: {why}"
    return replace(curve, horizon=lender.horizon, notes=(*curve.notes, note))


def _follows(curve: Curve, plan: Schedule) -> bool:
    """Return whether the logged rate has the plan's shape: sizes may differ in their peak rate."""
    known = np.isfinite(curve.rate)
    step, rate = curve.step[known], curve.rate[known]
    reached = float(plan.at(step).max())
    if reached <= 0 or rate.max() <= 0:
        return bool(reached <= 0 and rate.max() <= 0)
    return not Schedule(plan.step, plan.rate * (rate.max() / reached)).mismatch(step, rate)


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
    known = rows.dropna(subset=["tokens"]).sort_values("step")
    slope = known["tokens"].diff() / known["step"].diff()
    middle = float(slope[slope > 0].median())
    return {"tokens_per_step": middle} if middle > 0 else {}


def feature_columns(
    features: pd.DataFrame, diagrams: pd.DataFrame | None, catalogue: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return run, step and the leading features of forecasts under short names, with images and landscapes.

    If a probe names no such feature, its confirmatory features come under their column keys.
    """
    features, _ = without_unconverged(features)
    model = counted(features[features["role"] == "model"])
    wanted = _short_names(model, catalogue)
    keys = pd.MultiIndex.from_frame(model[["probe", "scope", "feature"]])
    short = pd.Series([wanted.get(key) for key in keys], index=model.index)
    used = model.assign(short=short).dropna(subset=["short"])
    filtrations = used.groupby("short")["filtration"].agg(lambda values: sorted(set(values))[0])
    used = used[used["filtration"] == used["short"].map(filtrations)]
    means = over_draws(used, ["run", "step", "short"])
    wide = means.pivot(index=["run", "step"], columns="short", values="value").reset_index()
    wide.columns.name = None
    further = _declared(features, catalogue, known=set(_leading_probes(catalogue)))
    if further is not None:
        wide = wide.merge(further, on=["run", "step"], how="outer") if len(wide) else further
    if diagrams is not None and len(diagrams):
        for kind in VECTORS:
            table = vector_table(diagrams, kind)
            wide = wide.merge(table, on=["run", "step"], how="left") if len(table.columns) > 2 else wide
    return wide


def topology_in(columns: Collection[str], catalogue: pd.DataFrame | None = None) -> tuple[str, ...]:
    """Return the columns that are declared as topology for forecasts.

    >>> topology_in(["mine", "h0_total", "neural_persistence"])
    ('neural_persistence', 'h0_total')
    """
    lines = leading_features(completed(catalogue), Use.FORECAST)
    names = [name for line in lines for name in (line["feature"], f"{line['probe']}/{line['feature']}")]
    return tuple(name for name in dict.fromkeys(names) if name in columns)


def _leading_probes(catalogue: pd.DataFrame | None) -> list[str]:
    return [line["probe"] for line in leading_features(completed(catalogue), Use.FORECAST)]


def _short_names(model: pd.DataFrame, catalogue: pd.DataFrame | None) -> dict[tuple[str, str, str], str]:
    """Return (probe, scope, feature) -> short name of the leading features of forecasts."""
    measured = set(model[["probe", "scope", "feature"]].drop_duplicates().itertuples(index=False, name=None))
    found: dict[tuple[str, str, str], str] = {}
    for line in leading_features(completed(catalogue), Use.FORECAST):
        probe, feature = line["probe"], line["feature"]
        scopes = tuple(line["scopes"]) or tuple(Scope)
        places = ((probe, str(scope), feature) for scope in scopes)
        at = next((place for place in places if place in measured), None)
        if at is not None:
            found[at] = feature if feature not in found.values() else f"{probe}/{feature}"
    return found


def _declared(
    features: pd.DataFrame, catalogue: pd.DataFrame | None, *, known: set[str]
) -> pd.DataFrame | None:
    """Return run, step and the confirmatory columns of the probes that are not `known`; None without any."""
    if catalogue is None:
        return None
    declared = catalogue[catalogue["primary"].astype(bool) & ~catalogue["probe"].isin(known)]
    rows = features[features["probe"].isin(declared["probe"])]
    if not is_counted(rows).any():
        return None
    table = series_table(rows, catalogue=catalogue)
    chosen = list(table.catalogue.loc[table.catalogue["primary"], "column"])
    return table.values[["run", "step", *chosen]] if chosen else None


def _infinite(features: pd.DataFrame) -> list[Problem]:
    """Return how many values of each feature were left out because they are infinite."""
    rows = features[(features["role"] == "model") & np.isinf(pd.to_numeric(features["value"]))]
    counts = rows.groupby(["run", "feature"], sort=False).size()
    return [
        Problem(str(run), f"{count:,} infinite values of {feature!r} left out", left_out=False)
        for (run, feature), count in counts.items()
    ]


def _without_infinities(table: pd.DataFrame) -> tuple[pd.DataFrame, list[Problem]]:
    """Return the table with NaN for infinities, and where they were: one problem per run and column."""
    problems = []
    numeric = [c for c in table.columns if c != "run" and pd.api.types.is_numeric_dtype(table[c])]
    infinite = table[numeric].astype(float).abs() == np.inf
    for column in infinite.columns[infinite.any()]:
        for run, count in infinite[column].groupby(table["run"], sort=False).sum().items():
            if count:
                reason = f"{count:,} infinite values of {column!r} left out"
                problems.append(Problem(str(run), reason, left_out=False))
    if not problems:
        return table, problems
    return table.assign(**{str(c): table[c].mask(infinite[c]) for c in numeric}), problems


def _size(info: pd.Series | None) -> int:
    """Return the number of parameters; 0, unknown, where none above 0 is given."""
    size = info["parameters"] if info is not None else 0
    return int(size) if pd.notna(size) and size > 0 else 0


def _at_some_steps(metrics: pd.DataFrame) -> pd.DataFrame | None:
    """Return (run, step) of 51 logged steps per run, for the norms of runs without measurements."""
    if not any(name in metrics and metrics[name].notna().any() for name in NORMS):
        return None
    steps = metrics[["run", "step"]].dropna().drop_duplicates().sort_values(["run", "step"])
    chosen = [
        rows.iloc[np.unique(np.linspace(0, len(rows) - 1, 51).astype(int))]
        for _, rows in steps.groupby("run")
    ]
    return pd.concat(chosen, ignore_index=True) if chosen else None


def _with_norms(wide: pd.DataFrame, rows: pd.DataFrame, run: str) -> pd.DataFrame:
    own = wide[wide["run"] == run].drop(columns="run").sort_values("step").reset_index(drop=True)
    logged = rows.sort_values("step").drop_duplicates("step").set_index("step")
    if "weight_norm" in logged and logged["weight_norm"].notna().any():
        own["weight_norm"] = logged["weight_norm"].reindex(own["step"]).to_numpy()
    if "grad_norm" in logged and logged["grad_norm"].notna().any():
        smooth = logged["grad_norm"].rolling(_GRADIENT_WINDOW, min_periods=1).mean()
        own["grad_norm"] = smooth.reindex(own["step"]).to_numpy()
    return own


def topological_methods(
    curves: list[Curve], published: Callable[[Collection[str]], Sequence[Forecaster]]
) -> list[Forecaster]:
    """Return the methods of the ablation: every way in which topology can enter, and the same with norms.

    Only those that some run has features for; `published` returns the rules of papers that these columns
    allow.
    """
    columns = {name for curve in curves for name in curve.features.columns}
    methods: list[Forecaster] = []
    declared = (name for curve in curves for name in curve.topology)
    rates = tuple(name for name in dict.fromkeys((*topology_in(columns), *declared)) if name in columns)
    norms = tuple(name for name in NORMS if name in columns)
    vectors = tuple(f"{kind}_h" for kind in VECTORS)
    others = tuple(
        sorted(c for c in columns - {"step", *rates, *norms} if not c.startswith(vectors))
    )[:MOST_FEATURES]  # fmt: skip
    for label, block in (("topology", rates), ("features", others)):
        if block:
            methods.append(FeatureTransfer(label, block))
            methods.append(FeatureTransfer(f"saturating {label}", block, "saturation"))
    if norms:
        methods.append(FeatureTransfer("norms", norms))
    for kind in VECTORS:
        block = tuple(sorted(name for name in columns if name.startswith(f"{kind}_h")))
        if block:
            methods += [FeatureTransfer(f"{kind}s", block, "vector", model) for model in ("ridge", "pls")]
    return [*methods, *published(columns)]
