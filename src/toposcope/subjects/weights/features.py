"""The features of the probes of weights, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from toposcope.core.types import About, Feature, Kind, Normalization, Scope, Use
from toposcope.subjects.declarations import distance_features, shape_features, spectral_features

NEURAL_PERSISTENCE, RIPS, BASELINES = "neural_persistence", "rips", "baselines"
TRAJECTORY, DISTANCES, UPDATES, EXPERTS = "trajectory", "distances", "updates", "experts"
DEEP_PERSISTENCE = "deep_graph_persistence"

_EVERY = (Scope.MODEL, Scope.ROLE, Scope.MATRIX)

PERSISTENCE = Feature(
    "neural_persistence",
    "neural persistence",
    primary=True,
    description="(mean (1 - w_e/s)^p)^(1/p) over the edges of the maximum spanning tree",
    scopes=_EVERY,
    filtrations=(Normalization.MATRIX, Normalization.NETWORK),
    leads={
        Use.CHANGE: 3, Use.END: 2, Use.NULL: 1, Use.FORECAST: 1, Use.EXPONENT: 1, Use.WATCH: 1,
    },
)  # fmt: skip


def _beside(ending: str, label: str, description: str = "") -> Feature:
    return replace(
        PERSISTENCE,
        name=f"neural_persistence_{ending}",
        label=f"neural persistence{label}",
        primary=False,
        description=description,
        leads={},
    )


PERSISTENCE_EXCESS = replace(
    _beside(
        "excess", " − shuffled", "neural persistence minus its mean over random permutations of the entries"
    ),
    primary=True,
    leads={Use.END: 5},
)
PERSISTENCE_SPREAD = _beside("std", ", sd over matrices")
WEIGHT_VARIANCE = replace(
    PERSISTENCE,
    name="weight_variance",
    label="variance of |w| / max",
    kind=Kind.BASELINE,
    primary=False,
    description="variance of |w| over the square of its maximum",
    leads={},
)
PERSISTENCE_SHUFFLED = replace(
    _beside("shuffled", ", shuffled weights", "the same after a random permutation of the entries"),
    kind=Kind.NULL,
    null_of=PERSISTENCE,
)
OF_NEURAL_PERSISTENCE = (
    PERSISTENCE,
    PERSISTENCE_EXCESS,
    _beside("clipped", ", clipped max", "the same with the 99.9% quantile of |w| instead of its maximum"),
    PERSISTENCE_SPREAD,
    WEIGHT_VARIANCE,
    PERSISTENCE_SHUFFLED,
)

DEEP = Feature(
    "deep_graph_persistence",
    "deep graph persistence",
    description="neural persistence of the widest paths through two standardised matrices that compose",
    scopes=(*_EVERY, Scope.HEAD),
    leads={Use.NULL: 2},
)
DEEP_EXCESS = replace(
    DEEP,
    name="deep_graph_persistence_excess",
    label="deep graph persistence − shuffled",
    description="deep graph persistence minus its mean over stacks whose matrices are permuted one by one",
    leads={},
)
DEEP_SHUFFLED = replace(
    DEEP,
    name="deep_graph_persistence_shuffled",
    label="deep graph persistence, shuffled weights",
    description="the same after a random permutation of the entries of each matrix alone",
    kind=Kind.NULL,
    null_of=DEEP,
    leads={},
)
DEEP_SPREAD = replace(
    DEEP,
    name="deep_graph_persistence_spread",
    label="std / largest |w − mean|",
    description="one over the largest standardised magnitude of the two matrices, by which both are divided",
    kind=Kind.BASELINE,
    leads={},
)
OF_DEEP_PERSISTENCE = (DEEP, DEEP_EXCESS, DEEP_SPREAD, DEEP_SHUFFLED)

OF_RIPS = shape_features(
    (0, 1),
    names=(
        "total",
        "total_scaled",
        "entropy_normalized",
        "count",
        "entropy",
        "max",
        "mean",
        "std",
        "total_sq",
    ),
    unit="weight",
    scopes=(Scope.POOLED, *_EVERY),
    aggregate="sum",
    primary=("h0_total_scaled", "h1_total_scaled"),
    leads={
        "h0_total": {Use.CHANGE: 1, Use.END: 1, Use.FORECAST: 2},
        "h0_total_scaled": {Use.CHANGE: 2, Use.END: 4},
        "h1_total": {Use.END: 3, Use.FORECAST: 3},
    },
)
_SHAPE = {feature.name: feature for feature in OF_RIPS}
H0_TOTAL, H1_TOTAL = _SHAPE["h0_total"], _SHAPE["h1_total"]
H0_SCALED, H1_SCALED = _SHAPE["h0_total_scaled"], _SHAPE["h1_total_scaled"]
H0_SQUARES, H0_ENTROPY = _SHAPE["h0_total_sq"], _SHAPE["h0_entropy"]

WEIGHT_NORM = Feature(
    "weight_norm", "weight norm", "weight", Kind.BASELINE, scopes=(Scope.MODEL,),
    description="Euclidean norm of all matrices together", leads={Use.NORM: 1},
)  # fmt: skip
_SPECTRUM = {feature.name: feature for feature in spectral_features(unit="weight", scopes=_EVERY)}
MATRIX_NORM, STABLE_RANK = _SPECTRUM["frobenius_norm"], _SPECTRUM["stable_rank"]
MEAN_DISTANCE, PARTICIPATION_RATIO = _SPECTRUM["mean_pairwise_distance"], _SPECTRUM["participation_ratio"]
OF_BASELINES = (
    WEIGHT_NORM,
    *_SPECTRUM.values(),
    Feature("frobenius_norm_sd", "Frobenius norm, sd over matrices", "weight", Kind.BASELINE, scopes=_EVERY),
)

_OF_PATH = (Scope.TRAJECTORY,)
OF_TRAJECTORY = (
    Feature("trajectory_h0_total", "trajectory H0 total", "weight", primary=True, scopes=_OF_PATH),
    Feature(
        "trajectory_ph_dimension", "trajectory PH dimension", "dimensions", primary=True, scopes=_OF_PATH
    ),
    Feature("trajectory_h1_total", "trajectory H1 total", "weight", scopes=_OF_PATH),
    Feature("trajectory_step_length", "trajectory step length", "weight", Kind.BASELINE, scopes=_OF_PATH),
)

TRAJECTORY_H0, STEP_LENGTH = OF_TRAJECTORY[0], OF_TRAJECTORY[-1]

OF_DISTANCES = (
    *distance_features("h0", "H0", unit="weight", scopes=(Scope.POOLED,)),
    *distance_features("h1", "H1", unit="weight", scopes=(Scope.POOLED,)),
    *distance_features("np", "weight diagram", unit="", scopes=(Scope.MODEL, Scope.MATRIX)),
)
_MOVED = {feature.name: feature for feature in OF_DISTANCES}
WEIGHTS_MOVED, WEIGHTS_BOTTLENECK = _MOVED["wasserstein1_np"], _MOVED["bottleneck_np"]

_OF_MATRIX, _OF_HEAD, _OF_TENSOR = (Scope.MATRIX,), (Scope.HEAD,), (Scope.TENSOR,)


def _baseline(name: str, label: str, unit: str, scopes: tuple[Scope, ...], description: str) -> Feature:
    return Feature(name, label, unit, Kind.BASELINE, scopes=scopes, description=description)


OF_UPDATES = (
    _baseline("update_norm", "update norm", "weight", (Scope.MODEL, Scope.MATRIX),
              "Frobenius norm of the difference to the previous checkpoint"),
    _baseline("update_relative", "relative update norm", "", (Scope.MODEL, Scope.MATRIX, Scope.HEAD),
              "update norm over the norm of the previous weights"),
    _baseline("update_spectral", "spectral norm of the update", "weight", _OF_MATRIX,
              "largest singular value of the difference to the previous checkpoint"),
    _baseline("update_entropy", "spectral entropy of the update", "", _OF_MATRIX,
              "entropy of the squared singular values of the update over its largest possible value"),
    _baseline("update_row_max", "largest row of the update", "", _OF_MATRIX,
              "largest row norm of the update over the median row norm"),
    _baseline("unchanged_rows", "unchanged rows", "share", _OF_MATRIX,
              "share of the rows that are identical, bit for bit, to those of the previous checkpoint"),
    _baseline("unchanged_values", "unchanged values", "share", _OF_MATRIX,
              "share of the values that are identical, bit for bit, to those of the previous checkpoint"),
    _baseline("resting_rows", "resting rows", "share", _OF_MATRIX,
              "share of the rows that did not change since the previous checkpoint, or only in length"),
    _baseline("zero_rows", "dead rows", "share", _OF_MATRIX, "share of the rows that are zero"),
    _baseline("exchanged_rows", "exchanged rows", "rows", _OF_MATRIX,
              "rows that swapped places beyond doubt since the previous checkpoint"),
    _baseline("repeated_rows", "repeated rows", "share", _OF_MATRIX,
              "share of the rows that are identical, bit for bit, to another row; zero rows do not count"),
    _baseline("renewed_rows", "renewed rows", "share", _OF_MATRIX,
              "share of the rows whose cosine with the same row of the previous checkpoint is below 1/2"),
    _baseline("renewed_count", "number of renewed rows", "rows", _OF_MATRIX,
              "rows whose cosine with the same row of the previous checkpoint is below 1/2"),
    _baseline("scaling", "growth along the weights", "", _OF_MATRIX,
              "inner product of the update and the previous weights over their squared norm"),
    _baseline("scaling_cosine", "cosine of update and weights", "", _OF_MATRIX,
              "cosine of the update and the previous weights"),
    _baseline("qk_norm", "QK product norm", "weight^2", _OF_HEAD, "Frobenius norm of W_Q^T W_K of a head"),
    _baseline("qk_entropy", "QK spectral entropy", "", _OF_HEAD,
              "entropy of the squared singular values of W_Q^T W_K over its largest possible value"),
    _baseline("ov_norm", "OV product norm", "weight^2", _OF_HEAD, "Frobenius norm of W_O W_V of a head"),
    _baseline("ov_entropy", "OV spectral entropy", "", _OF_HEAD,
              "entropy of the squared singular values of W_O W_V over its largest possible value"),
    _baseline("tensor_finite", "finite", "", _OF_TENSOR, "1 if all its values are finite, else 0"),
    _baseline("tensor_present", "present", "", _OF_TENSOR,
              "0 if only the previous checkpoint has the tensor, 1 if only this one has it"),
    _baseline("tensor_zero", "zeros", "share", _OF_TENSOR, "share of the tensor's values that are zero"),
    _baseline("tensor_norm", "tensor norm", "weight", _OF_TENSOR, "Euclidean norm of the tensor's values"),
    _baseline("tensor_rms", "root mean square", "weight", _OF_TENSOR,
              "root mean square of the tensor's values"),
    _baseline("tensor_moved", "relative move", "", _OF_TENSOR,
              "norm of the difference to the previous checkpoint over the norm of the previous values"),
    _baseline("tensor_along", "growth of the tensor along its values", "", _OF_TENSOR,
              "inner product of the difference and the previous values over their squared norm"),
    _baseline("row_largest", "largest row", "", _OF_TENSOR, "largest row norm over the median row norm"),
    _baseline("row_index", "index of the largest row", "", _OF_TENSOR, "which row has the largest norm"),
    *(_baseline(f"update_relative_{part}", f"relative update norm of {part.upper()}", "", _OF_HEAD,
                f"update norm of the head's part of {part.upper()} over its previous norm")
      for part in "qkvo"),
    *(_baseline(f"scaling_{part}", f"growth of {part.upper()} along its weights", "", _OF_HEAD,
                f"as scaling, for the head's part of {part.upper()}") for part in "qkvo"),
    *(_baseline(f"scaling_cosine_{part}", f"cosine of update and weights of {part.upper()}", "", _OF_HEAD,
                f"as scaling_cosine, for the head's part of {part.upper()}") for part in "qkvo"),
)  # fmt: skip

_UPDATES = {feature.name: feature for feature in OF_UPDATES}
UPDATE_NORM, UPDATE_RELATIVE = _UPDATES["update_norm"], _UPDATES["update_relative"]
UPDATE_ENTROPY, UPDATE_ROW_MAX = _UPDATES["update_entropy"], _UPDATES["update_row_max"]
ZERO_ROWS, UNCHANGED_ROWS = _UPDATES["zero_rows"], _UPDATES["unchanged_rows"]
UNCHANGED_VALUES, RESTING_ROWS = _UPDATES["unchanged_values"], _UPDATES["resting_rows"]
EXCHANGED_ROWS, REPEATED_ROWS = _UPDATES["exchanged_rows"], _UPDATES["repeated_rows"]
RENEWED_ROWS, RENEWED_COUNT = _UPDATES["renewed_rows"], _UPDATES["renewed_count"]
GROWTH, GROWTH_PURITY = _UPDATES["scaling"], _UPDATES["scaling_cosine"]
QK_NORM, OV_NORM = _UPDATES["qk_norm"], _UPDATES["ov_norm"]
FINITE, PRESENT, ZERO = _UPDATES["tensor_finite"], _UPDATES["tensor_present"], _UPDATES["tensor_zero"]
TENSOR_NORM, MOVED, ALONG = _UPDATES["tensor_norm"], _UPDATES["tensor_moved"], _UPDATES["tensor_along"]
TENSOR_RMS = _UPDATES["tensor_rms"]
ROW_LARGEST, ROW_INDEX = _UPDATES["row_largest"], _UPDATES["row_index"]

_OF_LAYER = (Scope.LAYER,)
OF_EXPERTS = (
    _baseline("expert_count", "experts", "experts", _OF_LAYER, "number of experts of the layer"),
    _baseline("expert_norm_spread", "spread of the experts' norms", "", _OF_LAYER,
              "standard deviation of the experts' norms over their mean"),
    _baseline("expert_norm_least", "smallest expert", "", _OF_LAYER, "smallest norm over the median norm"),
    _baseline("expert_cosine_largest", "most alike experts", "", _OF_LAYER,
              "largest cosine of two experts, by a sample of their values"),
    _baseline("gate_norm_spread", "spread of the gate's rows", "", _OF_LAYER,
              "standard deviation of the norms of the gate's rows over their mean"),
    _baseline("gate_norm_largest", "longest row of the gate", "", _OF_LAYER,
              "largest row norm over the median row norm"),
    _baseline("gate_cosine", "cosine of the gate's rows", "", _OF_LAYER, "mean cosine of two rows"),
    _baseline("gate_cosine_largest", "most alike rows of the gate", "", _OF_LAYER,
              "largest cosine of two rows"),
    _baseline("gate_differences", "differences of the gate's rows", "", _OF_LAYER,
              "norm of the rows without their mean over the norm of the rows"),
    _baseline("gate_rank", "stable rank of the gate", "", _OF_LAYER,
              "squared norm over the squared largest singular value, of the rows without their mean"),
    _baseline("gate_rank_kept", "stable rank of the gate, of the first", "", _OF_LAYER,
              "stable rank of the gate over that at the run's first checkpoint"),
)  # fmt: skip

DECLARED: Mapping[str, tuple[Feature, ...]] = {
    NEURAL_PERSISTENCE: OF_NEURAL_PERSISTENCE,
    DEEP_PERSISTENCE: OF_DEEP_PERSISTENCE,
    RIPS: OF_RIPS,
    BASELINES: OF_BASELINES,
    TRAJECTORY: OF_TRAJECTORY,
    DISTANCES: OF_DISTANCES,
    UPDATES: OF_UPDATES,
    EXPERTS: OF_EXPERTS,
}
"""Probe -> what it declares."""

GRADIENT = "gradient_"
"""The prefix in the names of probes that measure gradients."""


def of_gradients(feature: Feature) -> Feature:
    """Return the declaration of the same feature for gradients.

    >>> of_gradients(H0_TOTAL).label, str(of_gradients(H0_TOTAL).about)
    ('gradients: H0 total', 'gradients')
    """
    return replace(
        feature,
        label=f"gradients: {'norm' if feature == WEIGHT_NORM else feature.label}",
        unit=feature.unit.replace("weight", "loss per weight"),
        null_of=None if feature.null_of is None else of_gradients(feature.null_of),
        about=About.GRADIENTS,
        leads={use: place for use, place in feature.leads.items() if use in _LEAD_GRADIENTS},
    )


_LEAD_GRADIENTS = (Use.CHANGE, Use.NULL, Use.EXPONENT, Use.NORM)
"""Forecasts, last values and watches use only the weights, not the gradients."""
