"""Unkind simulated families: python -m benchmarks.forecast_families [FIRST] [LAST] [--cut .3] [--quick].

No forecaster fits these laws: sums of relaxations, sigmoid drops, bumps, logarithms, models that cross, ends
that are unrelated to the beginning. The noise is correlated in part; runs have glitches, unequal lengths, and
constant, cosine or warmup-stable-decay rates. --quick leaves the laws of the learning rate out of both rules:
they enter only where lengths differ, and take most of the time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from benchmarks.forecast_laws import KINDS, LAWS, NEW_KINDS
from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve, curve_from_metrics
from toposcope.forecasting.auto import Auto, one_schedule
from toposcope.forecasting.backtests import own_errors, sibling_errors
from toposcope.forecasting.base import Forecaster, Point
from toposcope.forecasting.families import LastValue, Pow3, Pow4, SmoothedPow3
from toposcope.forecasting.laws import MultiPower, Tissue
from toposcope.forecasting.one_run import forecast
from toposcope.forecasting.siblings import PathTransfer, SiblingTransfer
from toposcope.logs.schedule import Schedule, constant, cosine, stable_decay
from toposcope.synthetic import Spectrum, SyntheticRecipe, simulate


@dataclass(frozen=True, slots=True)
class LeastError(Forecaster):
    """The rule before averaging: the one method of least left-out error. Kept to be compared with."""

    siblings: Sequence[Curve] = ()
    share: float = 0.0
    chosen: Forecaster | None = None
    laws: bool = True
    """Whether laws of the learning rate may be chosen."""
    candidates: tuple[Forecaster, ...] = field(
        default_factory=lambda: (
            SiblingTransfer(), PathTransfer(), MultiPower(), Tissue(), Pow3(), SmoothedPow3(), Pow4(),
            LastValue(),
        )
    )  # fmt: skip

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return "least left-out error"

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Choose on the siblings."""
        kept = replace(self, siblings=tuple(siblings), share=share, chosen=None)
        if len(siblings) < 3:
            return kept
        scored = [
            (_rms(sibling_errors(c, siblings, share), len(siblings)), c) for c in self._eligible(siblings)
        ]
        best = min(error for error, _ in scored)
        if not np.isfinite(best):
            return kept
        return replace(kept, chosen=next(c for e, c in scored if e <= best).fit(siblings, share))

    def predict(self, seen: Curve) -> Point:
        """Forecast by the chosen one; without siblings choose on earlier cuts."""
        if self.chosen is not None:
            return self.chosen.predict(seen)
        scored = []
        for c in self._eligible(self.siblings):
            if "siblings" in c.needs or ("schedule" in c.needs and seen.plan() is None):
                continue
            try:
                point = c.fit(self.siblings, self.share).predict(seen)
            except (InputError, np.linalg.LinAlgError):
                continue
            scored.append((_rms(own_errors(c, seen, self.siblings), 3), point))
        if not scored:
            raise InputError(f"{self.name}: no method could forecast {seen.run}; give siblings")
        return min(scored, key=lambda pair: pair[0])[1]

    def _eligible(self, siblings: Sequence[Curve]) -> list[Forecaster]:
        laws = self.laws and (len(siblings) < 2 or not one_schedule(siblings))
        return [c for c in self.candidates if laws or "schedule" not in c.needs]


def _rms(errors: Sequence[float], expected: int) -> float:
    return float("inf") if len(errors) < expected else float(np.sqrt(np.mean(np.square(errors))))


def simulated(
    kind: str, draw: int, *, logged: int = 300, repaired: bool = True, redraw: int = 0
) -> list[Curve]:
    """Return one drawn family of 4 to 9 finished runs of `kind`; sizes span one to three decades.

    Three in ten runs have glitches. They are left out as a forecast does it, or with repaired=False kept.
    `redraw` trains the family again: its law, sizes, schedule and size of the noise stay; noise, glitches
    and what chance gives each run are drawn anew.
    """
    random = rng(name="unkind-family", kind=kind, draw=draw)
    count, steps = int(random.integers(4, 10)), int(random.choice([2000, 6000, 20000]))
    sizes = np.geomspace(1e6, 1e6 * 10 ** random.uniform(1, 3), count)
    schedule = str(random.choice(["constant", "cosine", "wsd"]))
    if kind == "random features":
        return _random_features(random, draw + 1000 * redraw, schedule, count)
    law = LAWS[kind](random)
    noise, memory = 10 ** random.uniform(-2.7, -1.5), float(random.choice([0.0, 0.0, 0.7]))
    unequal = bool(random.random() < 0.25)
    gain = random.uniform(0.02, 0.12)
    again = {"redraw": redraw} if redraw else {}
    if redraw:
        random = rng(name="unkind-noise", kind=kind, draw=draw, redraw=redraw)
    curves = []
    for i, n in enumerate(sizes):
        end = int(steps * random.uniform(0.6, 1.0)) if unequal else steps
        plan = _plan(schedule, end)
        step = np.unique(np.linspace(0, end, logged + 1).astype(int))[1:].astype(float)
        scale = np.log(n / sizes[0]) / np.log(sizes[-1] / sizes[0])
        loss = law(step / steps, scale, rng(name="unkind-run", kind=kind, draw=draw, run=i, **again))
        loss = loss * (1 - gain * (1 - plan.at(step) / plan.peak) * (step > 0.05 * end))
        errors = random.normal(0, noise, len(step))
        for j in range(1, len(errors)):
            errors[j] += memory * errors[j - 1]
        loss = loss * np.exp(errors)
        if random.random() < 0.3:
            at = random.integers(5, len(loss) - 5, random.integers(1, 3))
            loss[at] *= 10 ** random.uniform(0.5, 4)
        table = pd.DataFrame({"step": step, "loss": loss, "learning_rate": plan.at(step)})
        curve = curve_from_metrics(f"{kind} {draw} {i}", table, parameters=int(n))
        if not repaired:
            curve = replace(curve, step=step, loss=loss, rate=plan.at(step))
        curves.append(curve)
    return curves


def _plan(schedule: str, steps: int) -> Schedule:
    peak, warmup = 1e-3, int(0.02 * steps)
    if schedule == "constant":
        return constant(peak=peak, steps=steps, warmup=warmup)
    if schedule == "cosine":
        return cosine(peak=peak, last=1e-4, steps=steps, warmup=warmup)
    return stable_decay(
        peak=peak, last=1e-5, decay_from=int(0.8 * steps), steps=steps, warmup=warmup, exponential=False
    )


def _random_features(random: np.random.Generator, draw: int, schedule: str, count: int) -> list[Curve]:
    recipe = SyntheticRecipe(
        Spectrum(random.uniform(1.3, 2.0), random.uniform(1.0, 1.6), 128), steps=800, schedule=schedule,
        outputs=4, noise=float(random.choice([0.0, 0.05])), batch=int(random.choice([32, 256])),
    )  # fmt: skip
    runs = [
        simulate(recipe, width=int(w), seed=draw) for w in np.unique(np.geomspace(4, 64, count).astype(int))
    ]
    return [
        curve_from_metrics(
            f"random features {draw} {run.width}", run.metrics.iloc[4::4], parameters=run.parameters,
        )
        for run in runs
    ]  # fmt: skip


def compared(
    curves: Sequence[Curve], family: str, cut: float, *, logged: Sequence[Curve] = (), laws: bool = True
) -> pd.DataFrame:
    """Return `compared_run` of every run from the others; runs that diverged are no targets.

    `before`: the rule before `auto` on the curves as they were `logged`, glitches and all.
    """
    rows = []
    for i, run in enumerate(curves):
        if run.rose():
            continue
        siblings = [other for other in curves if other is not run]
        made = compared_run(run, siblings, family, cut, laws=laws)
        if logged:
            raw = logged[i].planned().seen(cut * run.horizon)
            others = [other for other in logged if other is not logged[i]]
            final = _least_error(raw, others, cut, laws)
            made["before"] = abs(float(np.log(final / run.final_loss())))
        rows.append(made)
    return pd.concat(rows) if rows else pd.DataFrame(columns=list(_COLUMNS))


_COLUMNS = ("family", "run", "place", "auto", "least_error", "last_value", "before", "held")


def compared_run(
    run: Curve, siblings: Sequence[Curve], family: str, cut: float, *, laws: bool = True
) -> pd.DataFrame:
    """Return one row: absolute log errors of `auto`, of the rule before it, and of the last value.

    `place`: whether its final loss is the lowest or the highest of the family, or between.
    """
    ends, actual = [other.final_loss() for other in siblings], run.final_loss()
    place = "alone"
    if ends:
        place = "lowest" if actual < min(ends) else "highest" if actual > max(ends) else "between"
    seen = run.planned().seen(cut * run.horizon)
    made = forecast(Auto() if laws else Auto.without_laws(), seen, siblings)
    held = bool(made.low <= actual <= made.high) if np.isfinite(made.low) else None
    before = _least_error(seen, siblings, cut, laws)
    finals = (made.final, before, LastValue().predict(seen).final, before)
    errors = [abs(float(np.log(final / actual))) for final in finals]
    return pd.DataFrame([(family, run.run, place, *errors, held)], columns=list(_COLUMNS))


def _least_error(seen: Curve, siblings: Sequence[Curve], cut: float, laws: bool) -> float:
    return LeastError(laws=laws).fit(siblings, cut).predict(seen).final


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=100)
    parser.add_argument("last", type=int, nargs="?", default=104)
    parser.add_argument("--cut", type=float, default=0.3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--new", action="store_true", help="the kinds written after every rule was settled")
    parser.add_argument("--csv", type=Path, help="where the rows go, family by family")
    parser.add_argument("--read", type=Path, nargs="*", help="report these files of rows, draw nothing")
    options = parser.parse_args()
    if options.read:
        report(pd.concat([pd.read_csv(path) for path in options.read]))
        return
    tables = []
    for draw in range(options.first, options.last):
        for kind in NEW_KINDS if options.new else KINDS:
            curves = simulated(kind, draw, logged=150)
            raw = simulated(kind, draw, logged=150, repaired=False) if kind != "random features" else ()
            made = compared(curves, f"{kind} {draw}", options.cut, logged=raw, laws=not options.quick)
            tables.append(made)
            if options.csv:
                pd.concat(tables).to_csv(options.csv, index=False)
            print(made.to_string(header=len(tables) == 1), flush=True)
    report(pd.concat(tables))


def report(table: pd.DataFrame) -> None:
    """Print errors by family, their ratios, and how often intervals held."""
    rules = ["auto", "least_error", "last_value", "before"]
    errors = table.groupby("family")[rules].mean()
    print(errors.round(4).to_string())
    for other in rules[1:]:
        ratio = errors["auto"] / errors[other]
        whole, middle = errors["auto"].mean() / errors[other].mean(), np.exp(np.log(ratio).mean())
        print(
            f"auto / {other}: of the means {whole:.3f}, geometric mean {middle:.3f}, above 1.1 in "
            f"{(ratio > 1.1).sum()} of {len(ratio)} families, worst {ratio.max():.2f}"
        )
    held = table.dropna(subset=["held"])
    print(held.groupby("place")["held"].agg(["mean", "count"]).to_string())


if __name__ == "__main__":
    main()
