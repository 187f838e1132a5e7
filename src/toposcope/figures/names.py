"""What the features are called in figures and tables, and which of them lead."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHAPE = re.compile(r"\bh(\d) ")

_WORDS = {
    "neural_persistence": "neural persistence",
    "neural_persistence_excess": "neural persistence − shuffled",
    "neural_persistence_shuffled": "neural persistence, shuffled weights",
    "neural_persistence_std": "neural persistence, sd over matrices",
    "neural_persistence_clipped": "neural persistence, clipped max",
    "weight_variance": "variance of |w| / max",
    "h0_total": "H0 total",
    "h0_total_scaled": "H0 total / median distance",
    "h0_entropy_normalized": "H0 entropy / ln n",
    "h1_total": "H1 total",
    "h1_total_scaled": "H1 total / median distance",
    "h1_count": "H1 count",
    "h1_entropy_normalized": "H1 entropy / ln n",
    "wasserstein1_h0": "W1 to previous H0",
    "wasserstein2_h0": "W2 to previous H0",
    "bottleneck_h0": "bottleneck to previous H0",
    "wasserstein1_h1": "W1 to previous H1",
    "wasserstein1_h1_rate": "W1 to previous H1 / ln step",
    "wasserstein1_h0_rate": "W1 to previous H0 / ln step",
    "trajectory_h0_total": "trajectory H0 total",
    "trajectory_h1_total": "trajectory H1 total",
    "trajectory_ph_dimension": "trajectory PH dimension",
    "trajectory_step_length": "trajectory step length",
    "frobenius_norm": "Frobenius norm",
    "weight_norm": "weight norm",
    "spectral_norm": "spectral norm",
    "stable_rank": "stable rank",
    "participation_ratio": "participation ratio",
    "rankme": "RankMe",
    "alpha_req": "alpha-ReQ",
    "mean_pairwise_distance": "mean pairwise distance",
    "h0_entropy": "H0 entropy",
    "h0_max": "H0 longest bar",
    "h1_entropy": "H1 entropy",
    "h1_max": "H1 longest bar",
    "h1_total_excess": "H1 total − Gaussian cloud",
    "h1_count_excess": "H1 count − Gaussian cloud",
    "h1_entropy_excess": "H1 entropy − Gaussian cloud",
    "h2_count": "H2 count",
    "h2_total": "H2 total",
    "rankme_eigenvalues": "effective rank (eigenvalues)",
    "top_eigenvalue": "top eigenvalue",
    "explained": "variance kept",
    "twonn": "TwoNN dimension",
    "mle_dimension": "MLE dimension",
    "ph_dimension": "PH dimension",
    "cka": "CKA to next layer",
    "carried_h1": "H1 carried to next layer",
    "attention_h0": "attention H0 (mean of heads)",
    "probe_accuracy": "linear probe accuracy",
    "perplexity": "perplexity",
    "log_perplexity": "log perplexity",
    "loss": "minibatch loss",
    "heldout_loss": "held-out loss",
    "loss_smooth": "smoothed training loss",
}

_HIDDEN = "representations/euclidean/hidden/"
REPRESENTATION_TOPOLOGY = (
    f"{_HIDDEN}h1_entropy",
    f"{_HIDDEN}h1_count",
    f"{_HIDDEN}h1_max",
    f"{_HIDDEN}h1_total",
    f"{_HIDDEN}h1_entropy_normalized",
    f"{_HIDDEN}h1_total_scaled",
    f"{_HIDDEN}h1_total_excess",
    f"{_HIDDEN}h1_entropy_excess",
    f"{_HIDDEN}h0_total",
    f"{_HIDDEN}h0_total_scaled",
    f"{_HIDDEN}h2_total",
    f"{_HIDDEN}wasserstein1_h1_rate",
    "representations/hidden/ph_dimension",
    "representations/attention/role=attention/attention_h0",
)
"""Topology of hidden states: the embedding report's four features first."""

REPRESENTATION_BASELINES = tuple(
    f"representations/hidden/{feature}"
    for feature in (
        "rankme_eigenvalues", "participation_ratio", "alpha_req", "top_eigenvalue", "stable_rank",
        "mean_pairwise_distance", "twonn",
    )
)  # fmt: skip
"""What is known of the same states without topology: the embedding report's three features first."""

_GRADIENTS = (
    "gradient_neural_persistence/seed004/neural_persistence",
    "gradient_neural_persistence/rieck/neural_persistence",
    "gradient_rips/euclidean/pooled/h0_total",
    "gradient_rips/euclidean/pooled/h0_total_scaled",
    "gradient_rips/euclidean/pooled/h1_total",
    "gradient_rips/euclidean/pooled/h1_total_scaled",
)
_GRADIENT_BASELINES = (
    "gradient_baselines/weight_norm",
    "gradient_baselines/layers/frobenius_norm",
    "gradient_baselines/layers/stable_rank",
    "gradient_baselines/gradient_norm_mean",
    "gradient_baselines/gradient_norm_sd",
)

_LEADING = (
    *REPRESENTATION_TOPOLOGY,
    "neural_persistence/seed004/neural_persistence",
    "neural_persistence/rieck/neural_persistence",
    "neural_persistence/seed004/neural_persistence_excess",
    "neural_persistence/rieck/neural_persistence_excess",
    "rips/euclidean/pooled/h0_total",
    "rips/euclidean/pooled/h0_total_scaled",
    "rips/euclidean/pooled/h0_entropy_normalized",
    "rips/euclidean/layers/h0_total",
    "rips/euclidean/pooled/h1_total",
    "rips/euclidean/pooled/h1_total_scaled",
    "rips/euclidean/layers/h1_total",
    "distances/euclidean/pooled/wasserstein1_h0",
    "distances/pooled/wasserstein1_h0",
    "trajectory/trajectory_h0_total",
    "trajectory/trajectory_ph_dimension",
    "trajectory/euclidean/trajectory_h0_total",
    *_GRADIENTS,
    *REPRESENTATION_BASELINES,
    "baselines/weight_norm",
    "baselines/layers/weight_norm",
    "baselines/layers/frobenius_norm",
    "baselines/layers/spectral_norm",
    "baselines/layers/stable_rank",
    "baselines/layers/rankme",
    *_GRADIENT_BASELINES,
)


def readable_name(column: str) -> str:
    """Return what a column key of the series table is called.

    >>> readable_name("rips/euclidean/pooled/h0_total")
    'H0 total (pooled)'
    >>> readable_name("neural_persistence/rieck/neural_persistence")
    'neural persistence (rieck)'
    >>> readable_name("baselines/role=mlp/stable_rank")
    'stable rank (mlp)'
    >>> readable_name("representations/euclidean/hidden/h1_count")
    'H1 count'
    >>> readable_name("representations/euclidean/hidden/h0_mean")
    'H0 mean'
    >>> readable_name("gradient_rips/euclidean/pooled/h0_total")
    'gradients: H0 total (pooled)'
    """
    if column == "gradient_baselines/weight_norm":
        return "gradients: norm"
    if column.startswith("gradient_"):
        return "gradients: " + readable_name(column.removeprefix("gradient_"))
    *path, feature = column.split("/")
    name = _WORDS.get(feature, _SHAPE.sub(r"H\1 ", feature.replace("_", " ")))
    if path[:1] == ["representations"]:
        return name
    said = [part.removeprefix("role=") for part in path[1:] if part not in ("euclidean", "model")]
    if path[:1] == ["baselines"] and said == ["layers"]:
        said = ["mean of layers"]
    elif said == ["layers"]:
        said = ["sum of layers"]
    return f"{name} ({', '.join(said)})" if said else name


def leading(columns: Iterable[str], most: int = 16) -> list[str]:
    """Return at most `most` of the columns, the ones that answer the report's questions first.

    The list is fixed in advance: no column is chosen for what its numbers say.

    >>> leading(["baselines/layers/rankme", "x/other", "rips/euclidean/pooled/h0_total"], most=2)
    ['rips/euclidean/pooled/h0_total', 'baselines/layers/rankme']
    """
    present = list(dict.fromkeys(columns))
    chosen = [column for column in _LEADING if column in present]
    return chosen[:most]


def is_baseline(column: str) -> bool:
    """Return whether a column is a norm or spectral baseline and no topology.

    >>> is_baseline("baselines/weight_norm"), is_baseline("rips/euclidean/pooled/h0_total")
    (True, False)
    """
    column = column.removeprefix("gradient_")
    return (
        column.split("/")[0] in ("baselines", "table")
        or column in REPRESENTATION_BASELINES
        or column.endswith(("/weight_variance", "step_length"))
    )
