"""What the representation probe declares: every number of a layer, of the model and of the heads."""

from __future__ import annotations

from dataclasses import replace

from toposcope.probes.declarations import distance_features, shape_features, spectral_features
from toposcope.types import Feature, Kind, Scope

_LAYER, _MODEL, _HEADS = (Scope.LAYER,), (Scope.MODEL,), (Scope.ROLE, Scope.HEAD)
_TWIN = "Gaussian cloud"


def null_name(feature: str) -> str:
    """Return what the null of a feature is called."""
    return f"{feature}_null"


def _null(feature: Feature) -> Feature:
    return replace(
        feature,
        name=null_name(feature.name),
        label=f"{feature.label}, {_TWIN}",
        kind=Kind.NULL,
        null_of=feature,
        primary=False,
        description=f"{feature.label} of a Gaussian cloud with the cloud's own mean and covariance",
    )


def _excess(feature: Feature) -> Feature:
    return Feature(
        f"{feature.name}_excess",
        f"{feature.label} − {_TWIN}",
        unit=feature.unit,
        primary=True,
        description=f"{feature.label} minus its mean over the Gaussian clouds",
        scopes=_LAYER,
        excess_of=feature,
    )


def _rate(feature: Feature) -> Feature:
    return Feature(
        f"{feature.name}_rate",
        f"{feature.label} / ln step",
        unit=f"{feature.unit} / ln step",
        description=f"{feature.label} over the difference of the two steps' logarithms",
        scopes=_LAYER,
        per_log_step_of=feature,
    )


_SHAPE = {
    feature.name: feature
    for feature in shape_features(
        (1, 0, 2), unit="distance", scopes=_LAYER, primary=("h0_total_scaled", "h1_total_scaled")
    )
}
_MOVED = {
    feature.name: feature
    for dim in (1, 0, 2)
    for feature in distance_features(f"h{dim}", f"H{dim}", unit="distance", scopes=_LAYER)
}
_CARRIED = tuple(
    Feature(
        f"carried_h{dim}", f"H{dim} carried to next layer", scopes=_LAYER,
        description="share of the total that an optimal matching carries over into the next chosen layer",
    )
    for dim in (1, 2)
)  # fmt: skip
_COSTS = tuple(
    Feature(f"layer_cost_h{dim}", f"H{dim} matching cost to next layer", "median distances", scopes=_LAYER)
    for dim in (0, 1, 2)
)
_DIMENSIONS = (
    Feature("ph_dimension", "PH dimension", "dimensions", primary=True, scopes=_LAYER),
    Feature("twonn", "TwoNN dimension", "dimensions", Kind.BASELINE, scopes=_LAYER),
    Feature("mle_dimension", "MLE dimension", "dimensions", Kind.BASELINE, scopes=_LAYER),
)
_ACCURACY = Feature(
    "probe_accuracy", "linear probe accuracy", "share", Kind.QUALITY, scopes=_LAYER, target="probe_accuracy"
)

MEASURED = (
    *_SHAPE.values(),
    *_DIMENSIONS[:1],
    *_MOVED.values(),
    *_CARRIED,
    *_COSTS,
    Feature("attention_h0", "attention H0", scopes=_HEADS, description="mean bar of its attention graph"),
    *spectral_features(
        (
            "rankme_eigenvalues", "participation_ratio", "alpha_req", "top_eigenvalue", "stable_rank",
            "mean_pairwise_distance", "rankme", "frobenius_norm", "spectral_norm",
        ),
        unit="distance", scopes=_LAYER,
    ),
    *_DIMENSIONS[1:],
    Feature("cka", "CKA to next layer", kind=Kind.BASELINE, scopes=_LAYER, description="debiased linear CKA"),
    Feature("explained", "variance kept", "share", Kind.BASELINE, scopes=_LAYER),
    *map(_null, (*_SHAPE.values(), *_CARRIED)),
    Feature(
        "perplexity", "perplexity", "per token", Kind.QUALITY, scopes=_MODEL, target="log_perplexity",
        log_target=True,
    ),
    Feature("loss", "loss on the texts", "nats per token", Kind.QUALITY, scopes=_MODEL),
    _ACCURACY,
    Feature(
        "majority_accuracy", "share of the commonest label", "share", Kind.NULL, null_of=_ACCURACY,
        scopes=_MODEL,
    ),
    Feature("probe_accuracy_sd", "linear probe accuracy, sd over folds", "share", Kind.NOISE, scopes=_LAYER),
    Feature("attention_h0_sd", "attention H0, sd over texts", kind=Kind.NOISE, scopes=_HEADS),
    Feature("predicted_tokens", "tokens predicted", "tokens", Kind.NOISE, scopes=_MODEL),
)  # fmt: skip

FEATURES = (
    *(_excess(_SHAPE[name]) for name in ("h1_total", "h1_entropy", "h1_count")),
    *MEASURED,
    *(_rate(_MOVED[name]) for name in ("wasserstein1_h1", "wasserstein1_h0")),
)
"""In the order in which figures show them. Six are primary: what H1 has beyond a Gaussian cloud of the same
covariance (total, entropy, count), the scaled totals of H0 and H1, and the dimension."""

SPECTRUM = ("rankme_eigenvalues", "participation_ratio", "alpha_req", "top_eigenvalue")
"""The baselines that are measured under other settings, too."""

SETTINGS = tuple(
    replace(feature, scopes=(Scope.SETTING,), primary=False)
    for feature in MEASURED
    if feature.name in SPECTRUM or feature.name in _SHAPE
)
"""What the sensitivity probe declares: the same numbers again, none of them primary."""
