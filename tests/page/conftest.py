"""Studies made of small tables, with findings that are known because they are put in."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pandas as pd
import pytest

from toposcope.page import write_studies
from toposcope.published.rules import PUBLISHED
from toposcope.study.analysis import study_of_rows
from toposcope.study.forecasts.compare import COLUMNS
from toposcope.study.table import from_frame
from toposcope.study.trends.verdicts import FAMILY_COLUMNS as FAMILIES
from toposcope.study.trends.verdicts import trend_table
from toposcope.subjects.catalogue import own_catalogue
from toposcope.subjects.weights.subject import SUBJECT as WEIGHTS

H0 = "rips/euclidean/pooled/h0_total"
NP = "neural_persistence/seed004/neural_persistence"
STEPS = tuple(range(0, 1300, 100))
SIZES = {"small": 1_000, "medium": 10_000, "large": 100_000}


def _features(runs, steps, *, above_null, draws):
    rows = []
    for i, run in enumerate(runs):
        for step in steps:
            part = step / max(max(steps), 1)
            base = {
                "run": run,
                "step": step,
                "scope": "model",
                "name": "model",
                "role": "model",
                "layer": None,
                "draw": None,
            }
            base |= {"status": "ok", "note": ""}
            persistence = {**base, "probe": "neural_persistence", "filtration": "seed004"}
            value = 0.4 + 0.1 * part
            rows.append({**persistence, "feature": "neural_persistence", "value": value})
            for draw in range(5):
                null = value - (0.05 if above_null else 0.0) + 0.01 * (draw - 2)
                feature = "neural_persistence_shuffled"
                rows.append({**persistence, "feature": feature, "draw": draw, "value": null})
            cloud = {**base, "probe": "rips", "filtration": "euclidean", "name": "pooled", "scope": "pooled"}
            for draw in range(draws):
                total = (10 + i) * (1 + part**2) + 0.01 * draw
                rows.append({**cloud, "feature": "h0_total", "draw": draw, "value": total})
                rows.append({**cloud, "feature": "h0_total_scaled", "draw": draw, "value": 9 - part})
                rows.append({**cloud, "feature": "h1_total", "draw": draw, "value": 2 + part * (-1) ** draw})
            rows.append(
                {**base, "probe": "baselines", "filtration": "", "feature": "weight_norm", "value": 1 + part}
            )
    return pd.DataFrame(rows)


def _metrics(runs, steps):
    return pd.DataFrame(
        {"run": run, "step": step, "tokens": 64 * step, "heldout_loss": np.nan,
         "loss": 5 - 3 * np.sqrt(step / max(max(steps), 1))}
        for run in runs
        for step in range(max(steps) + 1)
    )  # fmt: skip


def _columns_of_trends():
    step = np.arange(13.0)
    frame = pd.DataFrame({"step": step, "loss": np.exp(-step), "mine": np.sqrt(step)})
    return tuple(trend_table(from_frame(frame), every=True))


COLUMNS_OF = {
    "trends": _columns_of_trends(),
    "replicates": ("family", "target", "column", "seeds", "mean_rho", "low", "high", "pairing_p", "status"),
    "phases": ("run", "column", "rule", "peak_step", "diminishing_step"),
    "segments": ("run", "column", "segment", "start_step", "end_step", "status"),
    "families": FAMILIES,
}
NOTHING = {name: pd.DataFrame(columns=list(columns)) for name, columns in COLUMNS_OF.items()}


def _families(verdicts):
    rows = [
        {"target": "loss", "column": column, "n": 13, "r": 0.1, "r_low": -0.3, "r_high": 0.5, "p": 0.2,
         "p_holm": 1.0, "confirmatory": True, "family_size": 3, "detectable_r": 0.4, "departure_rho": 0.05,
         "lag": 0, "lag_steps": 0.0, "first": "", "rate_known": True,
         "verdict": verdicts.get(column, "trend only"),
         "reason": "too few checkpoints" if verdicts.get(column) == "cannot tell" else ""}
        for column in (H0, NP, "baselines/weight_norm")
    ]  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=list(FAMILIES))


def _trends(runs, verdicts):
    rows = [
        {"run": run, "target": "loss", "column": column, "n": 13, "spearman": -0.9, "naive_p": 1e-5,
         "naive_low": -1.0, "naive_high": -0.7, "effective_n": 5.0, "block_low": -1.0,
         "block_high": 0.1, "partial_step": 0.05, "departure_rho": 0.05,
         "partial_norm": np.nan, "walk_p": 0.2, "p": 0.2,
         "r": 0.1, "r_low": -0.3, "r_high": 0.5, "p_holm": 1.0, "lag": 0,
         "verdict": verdicts.get(column, "trend only")}
        for run in runs
        for column in (H0, NP, "baselines/weight_norm")
    ]  # fmt: skip
    return pd.DataFrame(rows)


ERRORS = {
    "auto": 0.03, "sibling transfer": 0.05, "sibling transfer + topology": 0.06, "last value": 0.4,
    "published: loss only": 0.2, "published: combined": 0.1, "control: loss only + last loss": 0.05,
}  # fmt: skip


def _forecasts(runs, errors):
    rows = [
        {"run": run, "cut": cut, "method": method, "predicted": 2 + error, "actual": 2.0, "error": error,
         "covered": error < 0.2, "status": "ok", "reason": ""}
        for run in runs
        for cut in (0.2, 0.5)
        for method, error in errors.items()
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _copied(given):
    """Return a study, or a part of it, with tables of its own, and without what was worked out of them."""
    if isinstance(given, pd.DataFrame):
        return given.copy()
    parts = {field.name: getattr(given, field.name) for field in fields(given) if field.init}
    return replace(given, **{name: _copied(part) for name, part in parts.items() if _holds_tables(part)})


def _holds_tables(part):
    return isinstance(part, pd.DataFrame) or (is_dataclass(part) and not isinstance(part, type))


def cached_by_arguments():
    """Return a function that makes a study of its arguments, and each only once."""
    studies = {}

    def make(*sizes, **given):
        if given.get("audit") is not None:
            return made_study(*sizes, **given)
        key = repr((sizes, sorted(given.items())))
        if key not in studies:
            studies[key] = made_study(*sizes, **given)
        return studies[key]

    return make


def made_study(
    sizes=SIZES, *, steps=STEPS, verdicts=None, errors=None, trends=True, above_null=True, draws=3,
    audit=None, seeds=1,
):  # fmt: skip
    """Return a study of small tables whose results are put in."""
    names = {
        f"{size}-seed{s}" if seeds > 1 else size: n for size, n in sizes.items() for s in range(1, seeds + 1)
    }
    runs = pd.DataFrame(
        {"run": list(names), "family": "gpt", "parameters": list(names.values()), "seed": 1,
         "uri": "runs/here"}
    )  # fmt: skip
    results = {
        **NOTHING,
        "forecasts": _forecasts(names, {} if errors == {} else {**ERRORS, **(errors or {})}),
    }
    if seeds > 1:
        results["replicates"] = pd.DataFrame(
            {"family": list(sizes), "target": "loss", "column": H0, "seeds": seeds, "mean_rho": -0.8,
             "low": -0.9, "high": -0.7, "own_minus_other": 0.1, "pairing_p": 0.5, "smallest_p": 0.17,
             "status": "ok", "pairing_holm": 1.0}
        )  # fmt: skip
    if trends:
        results["trends"] = _trends(names, verdicts or {})
        results["families"] = _families(verdicts or {})
    study = study_of_rows(
        WEIGHTS,
        _features(names, steps, above_null=above_null, draws=draws),
        _metrics(names, steps),
        runs,
        audit=pd.DataFrame() if audit is None else audit,
        catalogue=own_catalogue(),
        provenance={"toposcope": "0.1.0", "recipe": {"points": 200, "without": []}},
    )
    return replace(study, published=PUBLISHED, given=results)


@pytest.fixture(scope="session")
def study_of():
    """Make each study once for a worker, with its findings: for tests that change nothing in it."""
    return cached_by_arguments()


@pytest.fixture(scope="session")
def make_study():
    """Make a study that the test may change; what it is a copy of is made once."""
    make = cached_by_arguments()
    return lambda *sizes, **given: _copied(make(*sizes, **given))


@pytest.fixture(scope="session")
def study(study_of):
    """The usual study; no test changes it."""
    return study_of()


@pytest.fixture(scope="session")
def written(make_study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "report"
    write_studies([make_study()], folder, title="A title")
    return folder
