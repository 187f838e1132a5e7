"""The features of the representation probe: of a layer, of the model and of the heads."""

from __future__ import annotations

from dataclasses import replace

from toposcope.core.types import About, Feature, Kind, Scope, Use
from toposcope.subjects.declarations import distance_features, shape_features, spectral_features

REPRESENTATIONS, SENSITIVITY = "representations", "sensitivity"
"""The names of the probes: of the states, and of the states under other settings."""

_LAYER, _MODEL, _HEADS = (Scope.LAYER,), (Scope.MODEL,), (Scope.ROLE, Scope.HEAD)
_TWIN = "Gaussian cloud"


def null_name(feature: str) -> str:
    """Return the name of the null of a feature."""
    return f"{feature}_null"


def _null(feature: Feature) -> Feature:
    return replace(
        feature,
        name=null_name(feature.name),
        label=f"{feature.label}, {_TWIN}",
        kind=Kind.NULL,
        null_of=feature,
        primary=False,
        leads={},
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
        (1, 0, 2),
        unit="distance",
        scopes=_LAYER,
        primary=("h0_total_scaled", "h1_total_scaled"),
        leads={
            "h1_total": {Use.CHANGE: 1, Use.END: 2, Use.NULL: 1},
            "h1_count": {Use.CHANGE: 2, Use.END: 1, Use.NULL: 2, Use.CONTROL: 2},
            "h1_entropy": {Use.END: 3, Use.NULL: 3},
        },
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
        description="share of the total that an optimal matching carries to the next chosen layer",
    )
    for dim in (1, 2)
)  # fmt: skip
_COSTS = tuple(
    Feature(f"layer_cost_h{dim}", f"H{dim} matching cost to next layer", "median distances", scopes=_LAYER)
    for dim in (0, 1, 2)
)
PH_DIMENSION = Feature("ph_dimension", "PH dimension", "dimensions", primary=True, scopes=_LAYER)
TWONN = Feature("twonn", "TwoNN dimension", "dimensions", Kind.BASELINE, scopes=_LAYER)
MLE_DIMENSION = Feature("mle_dimension", "MLE dimension", "dimensions", Kind.BASELINE, scopes=_LAYER)
ACCURACY = Feature(
    "probe_accuracy", "linear probe accuracy", "share", Kind.QUALITY, scopes=_LAYER, target="probe_accuracy"
)
MAJORITY = Feature(
    "majority_accuracy", "share of the commonest label", "share", Kind.NULL, null_of=ACCURACY, scopes=_MODEL
)
ACCURACY_SPREAD = Feature(
    "probe_accuracy_sd", "linear probe accuracy, sd over folds", "share", Kind.NOISE, scopes=_LAYER
)
ATTENTION_H0 = Feature(
    "attention_h0", "attention H0", scopes=_HEADS, description="mean bar length of the head's attention graph"
)
CKA = Feature(
    "cka", "CKA to next layer", kind=Kind.BASELINE, scopes=_LAYER, description="debiased linear CKA"
)
EXPLAINED = Feature("explained", "variance kept", "share", Kind.BASELINE, scopes=_LAYER)
PERPLEXITY = Feature(
    "perplexity", "perplexity", "per token", Kind.QUALITY, scopes=_MODEL, target="log_perplexity",
    log_target=True,
)  # fmt: skip

MEASURED = (
    *_SHAPE.values(),
    PH_DIMENSION,
    *_MOVED.values(),
    *_CARRIED,
    *_COSTS,
    ATTENTION_H0,
    *spectral_features(
        (
            "rankme_eigenvalues", "participation_ratio", "alpha_req", "top_eigenvalue", "stable_rank",
            "mean_pairwise_distance", "rankme", "frobenius_norm", "spectral_norm",
        ),
        unit="distance", scopes=_LAYER,
        leads={
            "rankme_eigenvalues": {Use.CHANGE: 3, Use.END: 4},
            "top_eigenvalue": {Use.CHANGE: 4, Use.CONTROL: 1},
        },
    ),
    TWONN,
    MLE_DIMENSION,
    CKA,
    EXPLAINED,
    *map(_null, (*_SHAPE.values(), *_CARRIED)),
    PERPLEXITY,
    Feature("loss", "loss on the texts", "nats per token", Kind.QUALITY, scopes=_MODEL),
    ACCURACY,
    MAJORITY,
    ACCURACY_SPREAD,
    Feature("attention_h0_sd", "attention H0, sd over texts", kind=Kind.NOISE, scopes=_HEADS),
    Feature("predicted_tokens", "tokens predicted", "tokens", Kind.NOISE, scopes=_MODEL),
)  # fmt: skip

_EVERY = (
    *(_excess(_SHAPE[name]) for name in ("h1_total", "h1_entropy", "h1_count")),
    *MEASURED,
    *(_rate(_MOVED[name]) for name in ("wasserstein1_h1", "wasserstein1_h0")),
)
FEATURES = tuple(replace(feature, about=About.REPRESENTATIONS) for feature in _EVERY)
"""In the order in which figures show them. Six are primary: the excess of H1 over a Gaussian cloud of the
same covariance (total, entropy, count), the scaled totals of H0 and H1, and the dimension."""

_NAMED = {feature.name: feature for feature in FEATURES}
H0_TOTAL, H1_TOTAL, H1_SCALED = (_NAMED[name] for name in ("h0_total", "h1_total", "h1_total_scaled"))
H1_COUNT, H1_ENTROPY, H1_MAX = (_NAMED[name] for name in ("h1_count", "h1_entropy", "h1_max"))
H1_ENTROPY_NORMALIZED = _NAMED["h1_entropy_normalized"]
H0_MOVED, H1_MOVED = (_NAMED[name] for name in ("wasserstein1_h0", "wasserstein1_h1"))
H0_RATE, H1_RATE = (_NAMED[name] for name in ("wasserstein1_h0_rate", "wasserstein1_h1_rate"))
CARRIED_H1, H1_COST = _NAMED["carried_h1"], _NAMED["layer_cost_h1"]
RANK, PARTICIPATION = _NAMED["rankme_eigenvalues"], _NAMED["participation_ratio"]
DECAY, TOP = _NAMED["alpha_req"], _NAMED["top_eigenvalue"]

SPECTRUM = tuple(feature.name for feature in (RANK, PARTICIPATION, DECAY, TOP))
"""The baselines that are also measured under other settings."""

SETTINGS = tuple(
    replace(feature, scopes=(Scope.SETTING,), primary=False, leads={}, about=About.REPRESENTATIONS)
    for feature in MEASURED
    if feature.name in SPECTRUM or feature.name in _SHAPE
)
"""The features of the sensitivity probe: the same numbers again, none of them primary."""
