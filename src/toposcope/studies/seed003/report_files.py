"""The files of the embedding report: `all_results.json`, one file per model, statistics, configuration."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.errors import StoreError
from toposcope.core.outputs import replacing
from toposcope.core.types import Scope
from toposcope.core.wording import command, free_place
from toposcope.store import Store, outside, records, slug

if TYPE_CHECKING:
    import pandas as pd

PROBE = "representations"

_SUMMARIES = {
    "n_features": "count",
    "total_persistence": "total",
    "mean_persistence": "mean",
    "max_persistence": "max",
    "persistence_entropy": "entropy",
    "std_persistence": "std",
}
NAMES = {
    "perplexity": "perplexity",
    "pca_variance_explained": "explained",
    **{f"h{dim}_{theirs}": f"h{dim}_{ours}" for dim in (0, 1) for theirs, ours in _SUMMARIES.items()},
    "effective_rank": "rankme_eigenvalues",
    "participation_ratio": "participation_ratio",
    "eigenspectrum_decay_alpha": "alpha_req",
    "stable_rank": "stable_rank",
    "top_eigenvalue": "top_eigenvalue",
    "wasserstein_h1_from_prev": "wasserstein1_h1",
}
"""The report's name of a number -> our name."""

_NOT_CORRELATED = ("model", "checkpoint", "step", "perplexity")


def write_report_files(store: Store, out: Path) -> list[Path]:
    """Write the embedding report's files from a store of representations.

    Numbers are means over the draws, for the last measured layer. ``h0_n_significant`` and
    ``h1_n_significant`` (bars longer than the median bar) need kept diagrams and are left out without them.
    `statistics.json` contains Spearman's rho of every number with the perplexity, and the p-value that the
    report used. It assumes independent observations, but checkpoints of one run are not independent.

    Raises
    ------
    StoreError
        If the store contains no representations.
    """
    table = results(store)
    if table.empty:
        raise StoreError(
            f"{store.path} contains no representations; measure some with: "
            + command("embeddings", "SERIES", texts="FILE", out=free_place(f"{store.path}-embeddings"))
        )
    outside(store, out).mkdir(parents=True, exist_ok=True)
    contents: dict[str, object] = {
        "all_results.json": {str(run): records(lines) for run, lines in table.groupby("model")},
        "statistics.json": {str(run): statistics(lines) for run, lines in table.groupby("model")},
        "config.json": {"recipe": store.recipe, "recipe_hash": store.recipe_hash},
    }
    for run, lines in table.groupby("model"):
        contents[f"{slug(str(run))}_results.json"] = records(lines)
    for name, content in contents.items():
        with replacing(out / name) as aside:
            aside.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return [out / name for name in contents]


def results(store: Store) -> pd.DataFrame:
    """Return one line per model and checkpoint under the report's names; empty without representations."""
    import pandas as pd

    from toposcope.store import counted, over_draws

    features = store.features(probe=PROBE)
    features = counted(features)
    if features.empty:
        return pd.DataFrame()
    last = features.groupby("run")["layer"].transform("max")
    features = features[features["layer"].isna() | (features["layer"] == last)]
    features = features[features["scope"] != Scope.HEAD]
    means = over_draws(features, ["run", "step", "feature"])
    values = means.pivot(index=["run", "step"], columns="feature", values="value")
    table = pd.DataFrame({name: values[ours] for name, ours in NAMES.items() if ours in values})
    for dim, counts in _significant(store).items():
        table[f"h{dim}_n_significant"] = counts.reindex(table.index)
    table = table.reset_index().rename(columns={"run": "model"})
    table.insert(1, "checkpoint", "step" + table["step"].astype(str))
    return table


def tidy_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return lines of the report's own files as rows of the features table: the inverse of `results`.

    `table` has a line per checkpoint with the columns run, step and the report's names of the numbers.
    Every number is that of one hidden state, from all texts; missing numbers are left out.

    >>> import pandas as pd
    >>> lines = pd.DataFrame({"run": "a", "step": [0, 1], "perplexity": [9.0, 8.0], "h1_n_features": [3, 4]})
    >>> tidy_rows(lines)[["step", "name", "feature", "value"]].values.tolist()[2:]
    [[0, 'hidden', 'h1_count', 3.0], [1, 'hidden', 'h1_count', 4.0]]
    """
    import pandas as pd

    values = {ours: table[theirs].astype(float) for theirs, ours in NAMES.items() if theirs in table}
    if {"h1_entropy", "h1_count"} <= set(values):
        values["h1_entropy_normalized"] = values["h1_entropy"] / np.log(values["h1_count"])
    pieces = []
    for ours, numbers in values.items():
        rows = table[["run", "step"]].assign(feature=ours, value=numbers)
        at = ("model", "model", np.nan) if ours == "perplexity" else ("layer", "hidden", 0.0)
        rows["scope"], rows["name"], rows["layer"] = at
        of_diagram = ours.startswith(("h0_", "h1_")) or ours.endswith("_h1")
        pieces.append(rows.assign(filtration="euclidean" if of_diagram else ""))
    rows = pd.concat(pieces, ignore_index=True).dropna(subset=["value"])
    return rows.assign(probe=PROBE, role="model", draw=np.nan, status="ok", note="")


def _significant(store: Store) -> dict[int, pd.Series]:
    """Return, for each dimension, the number of bars longer than the median bar of their diagram."""
    diagrams = store.diagrams(probe=PROBE)
    if diagrams.empty:
        return {}
    last = diagrams.groupby("run")["layer"].transform("max")
    diagrams = diagrams[diagrams["layer"] == last]
    counts = [_longer_than_median(b, d) for b, d in zip(diagrams["birth"], diagrams["death"], strict=True)]
    # bars of kept diagrams: these are no rows with a value and a status, and every one of them counts
    means = diagrams.assign(count=counts).groupby(["dim", "run", "step"])["count"].mean()
    return {int(dim): means[dim] for dim in means.index.unique("dim") if dim in (0, 1)}


def _longer_than_median(birth: np.ndarray, death: np.ndarray) -> int:
    finite = np.isfinite(death)
    lengths = np.asarray(death)[finite] - np.asarray(birth)[finite]
    return int((lengths > np.median(lengths)).sum()) if len(lengths) else 0


def statistics(lines: pd.DataFrame) -> Mapping[str, dict[str, Any]]:
    """Return Spearman's rho of every number of one model with its perplexity, and n."""
    from scipy.stats import spearmanr

    statistics_by_name: dict[str, dict[str, Any]] = {}
    for name in lines.columns:
        if name in _NOT_CORRELATED or "perplexity" not in lines:
            continue
        both = lines[[name, "perplexity"]].dropna()
        if len(both) < 3 or both.nunique().min() < 2:
            continue
        rho, p = spearmanr(both[name], both["perplexity"])
        if math.isfinite(rho):
            statistics_by_name[name] = {"spearman": float(rho), "p_if_independent": float(p), "n": len(both)}
    return statistics_by_name
