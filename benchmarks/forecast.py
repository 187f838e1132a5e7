"""Score every forecast on public curves: python benchmarks/forecast.py DATA [--store STORE] [--json OUT].

DATA holds seed_runs/ and curves/ (multipowerlaw/, gemstones/, llmc_gpt2_124M/). STORE is `toposcope weights
DATA/seed_runs --preset seed004 --diagrams --out STORE`, for the forecasts with topology. Nothing is chosen on
what is scored: bandwidths are averaged, the choice of method is nested, and the fading of the annealing law
is chosen on the other model size (the table has that choice beside the default).
"""

from __future__ import annotations

import argparse
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.forecast_shapes import choose_shape
from toposcope.core.progress import track
from toposcope.forecasting import Curve, curve_from_metrics, fit_law, forecast, forecast_planned
from toposcope.forecasting.annealing import (
    DEFAULT,
    PUBLISHED,
    drive,
    fit_multi_power,
    fit_tissue,
)
from toposcope.forecasting.auto import Auto, default_candidates
from toposcope.forecasting.evaluate import ablate, score_forecasts, summarise, unseen_largest
from toposcope.forecasting.laws import MultiPower, Tissue
from toposcope.forecasting.siblings import SiblingTransfer
from toposcope.logs.curve import Binned, binned
from toposcope.logs.schedule import constant, cosine, drop, stable_decay
from toposcope.published.forecasters import published_rules
from toposcope.study.forecasts.gather import gather_curves, topological_methods
from toposcope.synthetic import Spectrum, SyntheticRecipe, simulate

SIZES = {"tiny-3k": 2936, "small-7k": 7408, "med-21k": 20640, "large-46k": 46368, "xl-97k": 97200}
FITTED = ("cosine_24000", "constant_24000", "wsdcon_9")
PREDICTED = (
    "constant_72000",
    "cosine_72000",
    "wsd_20000_24000",
    "wsdld_20000_24000",
    "wsdcon_3",
    "wsdcon_18",
)
PEAK = {"peak": 3e-4, "warmup": 2160}
PLANS = {
    "constant_24000": constant(steps=24000, **PEAK),
    "constant_72000": constant(steps=72000, **PEAK),
    "cosine_24000": cosine(last=3e-5, steps=24000, **PEAK),
    "cosine_72000": cosine(last=3e-5, steps=72000, **PEAK),
    "wsd_20000_24000": stable_decay(last=3e-5, decay_from=20000, steps=24000, **PEAK),
    "wsdld_20000_24000": stable_decay(last=3e-5, decay_from=20000, steps=24000, exponential=False, **PEAK),
    **{f"wsdcon_{k}": drop(last=k * 1e-5, at=8000, steps=16000, **PEAK) for k in (3, 9, 18)},
}


def small_models(data: Path, store: Path | None) -> list[Curve]:
    if store is not None:
        from toposcope.store import Store

        tables = Store.open(store)
        curves, _ = gather_curves(
            tables.metrics(),
            tables.runs(),
            features=tables.features(),
            diagrams=tables.diagrams(probe="rips"),
        )
        return curves
    curves = []
    for name, parameters in SIZES.items():
        log = pd.DataFrame(json.loads((data / "seed_runs" / name / "training_log.json").read_text()))
        log = log.rename(columns={"lr": "learning_rate"})
        curves.append(curve_from_metrics(name, log, parameters=parameters))
    return curves


def gemstones(data: Path) -> list[Curve]:
    table = pd.read_csv(data / "curves" / "gemstones" / "hot_width_le_768.csv")
    table = table.rename(columns={"final_loss": "loss"})
    groups = table.groupby("run_name")
    return [
        curve_from_metrics(str(n), g, parameters=int(g["params_active_precise"].iloc[0])) for n, g in groups
    ]


def annealed(data: Path, size: int, name: str) -> Curve:
    table = pd.read_csv(data / "curves" / "multipowerlaw" / f"csv_{size}" / f"{name}.csv")
    table = table.rename(columns={"lr": "learning_rate"})
    last = int(table["step"].iloc[-1])
    return curve_from_metrics(
        f"{size}M {name}", table, schedule=PLANS[name], horizon=last, parameters=size * 10**6
    )


def schedules(data: Path) -> pd.DataFrame:
    rows = []
    for size, other in ((25, 100), (100, 25)):
        curve = {name: annealed(data, size, name) for name in PLANS}
        raw = {name: (Binned(c.step, c.loss, np.ones(len(c.step))), c.plan()) for name, c in curve.items()}
        others = [annealed(data, other, name) for name in PLANS]
        shape = choose_shape([(Binned(c.step, c.loss, np.ones(len(c.step))), c.plan()) for c in others])
        three = [raw[name] for name in FITTED]
        laws = {
            "multi-power law": fit_multi_power(three),
            f"the same, fading {shape.kappa:g} from {other}M": fit_multi_power(three, shape=shape),
            "the same as published": fit_multi_power(three, shape=PUBLISHED),
            "Tissue": fit_tissue(three),
        }
        for label, law in laws.items():
            mae, r2 = [], []
            for name in PREDICTED:
                miss = law.losses(drive(curve[name].plan(), curve[name].step)) - curve[name].loss
                mae.append(np.abs(miss).mean())
                r2.append(1 - np.sum(miss**2) / np.sum((curve[name].loss - curve[name].loss.mean()) ** 2))
            rows.append({"size": size, "law": label, "mae": np.mean(mae), "r2": np.mean(r2)})
        siblings = [
            curve[n] for n in ("cosine_24000", "constant_24000", "wsd_20000_24000", "wsdld_20000_24000")
        ]
        run = curve["cosine_72000"]
        for method in (Auto(), MultiPower(), MultiPower(shape=PUBLISHED), Tissue()):
            made = forecast(method, run.seen(0.3 * run.horizon), siblings)
            label = f"30% of cosine_72000: {method.name}"
            rows.append({"size": size, "law": label, "mae": abs(made.final - run.final_loss()), "r2": np.nan})
    return pd.DataFrame(rows)


def llmc(data: Path) -> Curve:
    """Return the GPT-2 124M run: one run, no siblings, its logged rate as the plan."""
    table = pd.read_csv(data / "curves" / "llmc_gpt2_124M" / "llmc_gpt2_124M_train.csv")
    table = table.rename(columns={"train_loss": "loss", "lr": "learning_rate"})
    return curve_from_metrics("gpt2 124M", table, parameters=124 * 10**6).planned()


def coverage(data: Path, small: list[Curve], gems: list[Curve], only: str | None = None) -> pd.DataFrame:
    """Return the forecasts by `auto` of all families, or `only` one, at 20, 30, 50%, from other runs alone.

    A run of the schedules is forecast from three finished ones of its size: `FITTED`, with the sudden decay
    in the place of itself. The run of GPT-2 has no siblings.
    """
    jobs: list[tuple[str, Curve, list[Curve]]] = []
    for family, curves in (("five small models", small), ("gemstones", gems)):
        jobs += [(family, c, [o for o in curves if o is not c]) for c in curves]
    for size in (25, 100):
        known = {name: annealed(data, size, name) for name in PLANS}
        for name, curve in known.items():
            names = [n for n in FITTED if n != name]
            names += ["wsd_20000_24000"] if name in FITTED else []
            jobs.append((f"schedules {size}M", curve, [known[n] for n in names]))
    jobs.append(("gpt2", llmc(data), []))
    rows = []
    jobs = [job for job in jobs if only in (None, job[0])]
    for family, curve, siblings in track(jobs, "covering"):
        for cut in (0.2, 0.3, 0.5):
            made = forecast(Auto(), curve.planned().seen(cut * curve.horizon), siblings)
            actual = curve.final_loss()
            width = math.log(made.high / made.low) / 2
            held = made.low <= actual <= made.high if math.isfinite(made.low) else None
            rows.append((family, curve.run, cut, made.final - actual, width, held))
    return pd.DataFrame(rows, columns=["family", "run", "cut", "error", "half_width", "covered"])


def share_covered(forecasts: pd.DataFrame) -> dict[str, float]:
    """Return the share of intervals that held, with the binomial and the run-clustered standard error.

    The clustered one adds up the cuts of a run before squaring: a run that is missed once is missed again.
    Forecasts without an interval are counted apart.
    """
    without = int(forecasts["covered"].isna().sum())
    forecasts = forecasts.dropna(subset=["covered"])
    held = forecasts["covered"].astype(float)
    share, n = held.mean(), len(held)
    sums = (held - share).groupby([forecasts["family"], forecasts["run"]]).sum()
    return {
        "without": without, "n": n, "runs": len(sums), "held": int(held.sum()), "share": share,
        "binomial": math.sqrt(0.09 / n), "clustered": float(np.sqrt((sums**2).sum())) / n,
        "mean_half_width": forecasts["half_width"].mean(),
    }  # fmt: skip


def planned(data: Path) -> pd.DataFrame:
    """Return the runs that had not begun: the law of three finished runs of their size, six other plans."""
    rows = []
    for size in (25, 100):
        known = {name: annealed(data, size, name) for name in PLANS}
        for name in PREDICTED:
            actual = known[name].final_loss()
            for made in forecast_planned(PLANS[name], [known[n] for n in FITTED]):
                held = made.low <= actual <= made.high
                rows.append((size, name, made.method, made.final - actual, held))
    table = pd.DataFrame(rows, columns=["size", "plan", "law", "error", "covered"])
    grouped = table.assign(error=table["error"].abs()).groupby(["size", "law"], sort=False)
    return grouped.agg({"error": ["mean", "max"], "covered": ["sum", "count"]}).reset_index()


def fading(data: Path, small: list[Curve]) -> pd.DataFrame:
    """Return the error of the multi-power law with and without the default's fading, where it was not chosen.

    The five small models and GPT-2 from 20, 30 and 50% of their run; random-feature runs of six schedules
    by the law of three others (mean absolute error of log L).
    """
    rows: list[tuple[str, str, float]] = []
    jobs = [("five small models", c, [o for o in small if o is not c]) for c in small]
    jobs.append(("gpt2", llmc(data), []))
    for shape in (PUBLISHED, DEFAULT):
        label = f"kappa {shape.kappa:g}"
        for family, curve, siblings in jobs:
            for cut in (0.2, 0.3, 0.5):
                seen = curve.planned().seen(cut * curve.horizon)
                final = MultiPower(shape=shape).fit(siblings, cut).predict(seen).final
                rows.append((f"{family} at {cut:.0%}", label, abs(final - curve.final_loss())))
        for a, b in ((1.5, 1.25), (2.0, 1.5)):
            for width in (32, 128):
                fitted = (("cosine", 3000), ("constant", 3000), ("wsd", 2000))
                law = fit_law([_random_feature(a, b, width, *of) for of in fitted], shape=shape)
                for of in (("cosine", 9000), ("constant", 9000), ("wsd", 9000), ("wsd", 3000)):
                    curve = _random_feature(a, b, width, *of)
                    plan, losses = curve.schedule, binned(curve, 150, after=200)
                    assert plan is not None
                    miss = np.log(np.maximum(law.along(plan, losses.step), 1e-9) / losses.loss)
                    rows.append(("random features", label, float(np.abs(miss).mean())))
    table = pd.DataFrame(rows, columns=["runs", "law", "error"])
    return table.pivot_table(index="runs", columns="law", values="error", sort=False).reset_index()


@cache
def _random_feature(a: float, b: float, width: int, schedule: str, steps: int) -> Curve:
    recipe = SyntheticRecipe(Spectrum(a, b, 512), schedule=schedule, steps=steps)
    run = simulate(recipe, width=width)
    return curve_from_metrics(
        f"{schedule} {steps}", run.metrics, parameters=run.parameters, schedule=recipe.plan()
    )


def of_small(data: Path, small: list[Curve], gems: list[Curve]) -> dict[str, pd.DataFrame]:
    """Return the five small models by every method, against sibling transfer, and the largest of them."""
    cuts = (0.18, 0.28, 0.48)
    scores = score_forecasts(
        small, [Auto(), *default_candidates(), *topological_methods(small, published_rules)], cuts
    )
    return {
        "five small models": summarise(scores),
        "five small models: against sibling transfer": ablate(scores, SiblingTransfer().name),
        "five small models: the largest": unseen_largest(small, [Auto()], cuts),
    }


def of_gemstones(data: Path, small: list[Curve], gems: list[Curve]) -> dict[str, pd.DataFrame]:
    """Return Gemstones by every method that needs no learning rate."""
    plain = [m for m in default_candidates() if "schedule" not in m.needs]
    return {"gemstones": summarise(score_forecasts(gems, [Auto(), *plain], (0.2, 0.5)))}


def of_coverage(
    data: Path, small: list[Curve], gems: list[Curve], only: str | None = None
) -> dict[str, pd.DataFrame]:
    """Return how often the intervals of `auto` held, by family and by cut."""
    covered = coverage(data, small, gems, only)
    rows = [{"family": name, **share_covered(part)} for name, part in covered.groupby("family", sort=False)]
    rows += [{"family": "all", **share_covered(covered)}]
    rows += [{"family": f"all at {cut:.0%}", **share_covered(part)} for cut, part in covered.groupby("cut")]
    return {"90% intervals": pd.DataFrame(rows)}


def of_schedules(data: Path, small: list[Curve], gems: list[Curve]) -> dict[str, pd.DataFrame]:
    """Return the laws of the rate on runs that had not begun and on six schedules."""
    return {"runs that had not begun": planned(data), "learning-rate schedules": schedules(data)}


PARTS = {"small": of_small, "gemstones": of_gemstones, "coverage": of_coverage, "schedules": of_schedules}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=["all", *PARTS], default="all")
    parser.add_argument("--family", help="only this family's coverage, as its table names it")
    parser.add_argument("--fading", action="store_true", help="only the law's fading, elsewhere")
    options = parser.parse_args()
    small, gems = small_models(options.data, options.store), gemstones(options.data)
    if options.fading:
        print(fading(options.data, small).round(4).to_string(index=False))
        return
    if options.family:
        for name, table in of_coverage(options.data, small, gems, options.family).items():
            print(f"{name}\n{table.round(5).to_string(index=False)}")
        return
    tables: dict[str, pd.DataFrame] = {}
    for part in PARTS if options.part == "all" else [options.part]:
        made = PARTS[part](options.data, small, gems)
        for name, table in made.items():
            print(f"\n{name}\n{table.round(5).to_string(index=False)}", flush=True)
        tables |= made
    if options.json:
        options.json.write_text(
            json.dumps({k: json.loads(t.to_json(orient="records")) for k, t in tables.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
