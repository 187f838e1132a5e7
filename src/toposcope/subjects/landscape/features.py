"""The features of the probes of the loss surface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from toposcope.core.types import About, Feature, Kind, Scope, Use

FOLDER = "landscapes"
"""The folder in the store that contains the sampled surfaces."""
SHARPNESS, CURVATURE, SURFACE, PATHS, RETRAIN = "sharpness", "curvature", "surface", "paths", "retrain"
"""The names of the probes."""

_MODEL = (Scope.MODEL, Scope.SETTING)
_LOSS = "nats per token"

CRITICAL = Feature(
    "critical_sharpness", "critical sharpness", "2 / update", primary=True, scopes=_MODEL,
    description="2 over the smallest multiple of the update at which the loss exceeds its starting value",
    leads={Use.CHANGE: 4, Use.END: 4},
)  # fmt: skip
BATCH_LOSS = Feature(
    "batch_loss", "loss of the batch", _LOSS, Kind.QUALITY, scopes=_MODEL, target="batch_loss"
)
OF_SHARPNESS = (
    CRITICAL,
    Feature(
        "critical_step", "critical step", "updates", scopes=_MODEL,
        description="multiple of the update at which the loss is back at its starting value",
    ),
    Feature(
        "critical_sharpness_null", "critical sharpness, random direction", "2 / update", Kind.NULL,
        null_of=CRITICAL, scopes=_MODEL,
        description="the same along random directions of the update's length, with the sign that descends",
    ),
    Feature("update_length", "length of the update", "weight", Kind.BASELINE, scopes=_MODEL),
    BATCH_LOSS,
)  # fmt: skip

TOP = Feature(
    "top_eigenvalue", "top Hessian eigenvalue", "loss / weight squared", primary=True, scopes=_MODEL,
    description="the Hessian's algebraically largest eigenvalue",
    leads={Use.CHANGE: 3, Use.END: 3},
)  # fmt: skip
TRACE = Feature(
    "hessian_trace", "Hessian trace", "loss / weight squared", scopes=_MODEL,
    description="Hutchinson's estimate, with its interval in the note",
)  # fmt: skip
OF_CURVATURE = (
    TOP,
    Feature(
        "bottom_eigenvalue", "lowest Hessian eigenvalue", "loss / weight squared", scopes=_MODEL,
        description="the algebraically lowest eigenvalue",
    ),
    TRACE,
    Feature(
        "top_eigenvalue_null", "curvature along random directions", "loss / weight squared", Kind.NULL,
        null_of=TOP, scopes=_MODEL, description="z'Hz / z'z for vectors z of random signs",
    ),
    Feature(
        "gauss_newton_top", "top Gauss-Newton eigenvalue", "loss / weight squared", scopes=_MODEL,
        description="the Gauss-Newton matrix's largest eigenvalue",
    ),
    Feature(
        "layer_top_eigenvalue", "top eigenvalue of a layer's block", "loss / weight squared",
        scopes=(Scope.LAYER, Scope.SETTING),
        description="of the Hessian with respect to one layer's parameters alone",
    ),
    Feature(
        "eigenvalue", "Hessian eigenvalue by rank", "loss / weight squared", scopes=(Scope.SETTING,),
        description="the eigenvalues of largest magnitude; the name has the rank",
    ),
)  # fmt: skip

MINIMA = Feature(
    "minima", "minima of the surface", "count", primary=True, scopes=_MODEL,
    description="minima of positive persistence on the sampled lattice",
    leads={Use.CHANGE: 1, Use.END: 1, Use.NULL: 1},
)  # fmt: skip
PERSISTENCE = Feature(
    "average_persistence", "average persistence of the surface", _LOSS, primary=True, scopes=_MODEL,
    description="mean of loss(saddle) - loss(minimum) over branches that end",
    leads={Use.CHANGE: 2, Use.END: 2, Use.NULL: 2},
)  # fmt: skip
TOTAL = Feature("total_persistence", "total persistence of the surface", _LOSS, scopes=_MODEL)
H1_TOTAL = Feature(
    "h1_total", "H1 total of the surface", _LOSS, scopes=_MODEL, description="sublevel loops, sum of lengths",
    leads={Use.EXPONENT: 4},
)  # fmt: skip
WITH_NULL = (MINIMA, PERSISTENCE, TOTAL, H1_TOTAL)
TRIVIAL = Feature(
    "trivial", "share of trivial surfaces", "share", Kind.NOISE, scopes=_MODEL,
    description="1 for a surface with one minimum; the mean over draws is the share of such surfaces",
)  # fmt: skip
CONFIRMED = Feature(
    "branches_confirmed", "confirmed branches", "count", scopes=_MODEL,
    description="branches found on every second sequence whose 95% interval on the others lies above 0",
)  # fmt: skip
FOUND = Feature("branches_found", "branches on half of the sequences", "count", Kind.NOISE, scopes=_MODEL)
REACH = Feature(
    "reach", "reach of the surface", "unit of the directions", Kind.BASELINE, scopes=_MODEL,
    description="range that the rule gives, averaged over the axes: a plain measure of flatness",
)  # fmt: skip
MASKED = Feature("masked", "share of places without a loss", "share", Kind.NOISE, scopes=_MODEL)
OF_SURFACE = (
    MINIMA,
    PERSISTENCE,
    TOTAL,
    Feature("max_persistence", "longest branch of the surface", _LOSS, scopes=_MODEL),
    Feature(
        "saddles", "saddle count of the surface", "count", scopes=_MODEL,
        description="minima - 1 on a connected domain, so it adds no information",
    ),
    Feature("depth_mean", "mean depth of basins", _LOSS, scopes=_MODEL),
    Feature("depth_max", "deepest basin", _LOSS, scopes=_MODEL),
    Feature(
        "smad", "SMAD", _LOSS, scopes=_MODEL, description="mean |saddle - minimum| over leaves with a saddle"
    ),
    Feature(
        "largest_basin", "share of the largest basin", "share", scopes=_MODEL,
        description="grid points from which steepest descent leads to the widest basin's minimum",
    ),
    TRIVIAL,
    CONFIRMED,
    FOUND,
    Feature("h1_count", "H1 bars of the surface", "count", scopes=_MODEL),
    H1_TOTAL,
    Feature("h2_count", "H2 bars of the surface", "count", scopes=_MODEL),
    Feature("h2_total", "H2 total of the surface", _LOSS, scopes=_MODEL),
    Feature("maxima", "maxima of the surface", "count", scopes=_MODEL, description="the split tree's leaves"),
    Feature("split_average_persistence", "average persistence of maxima", _LOSS, scopes=_MODEL),
    Feature("range", "height of the surface", _LOSS, Kind.BASELINE, scopes=_MODEL),
    REACH,
    MASKED,
    *(
        Feature(
            f"{base.name}_null", f"{base.label}, quadratic model", base.unit, Kind.NULL, null_of=base,
            scopes=_MODEL, description="of the quadratic model of the same point on the same lattice",
        )
        for base in WITH_NULL
    ),
    *(
        Feature(
            f"{base.name}_random", f"{base.label}, random directions", base.unit, Kind.NULL, null_of=base,
            scopes=_MODEL, description="along random directions of equal length; only for other directions",
        )
        for base in WITH_NULL
    ),
)  # fmt: skip

OF_PATHS = (
    Feature(
        "barrier", "barrier on the straight line", _LOSS, scopes=_MODEL,
        description="highest rise above the line between the ends' losses, from the checkpoint before",
    ),
    Feature(
        "barrier_bezier", "barrier on a bent curve", _LOSS, scopes=_MODEL,
        description="the same on a quadratic Bezier curve whose control point was trained on another batch",
    ),
)  # fmt: skip

RETRAIN_H0 = Feature(
    "retrain_h0_total", "H0 total of jump and retrain", "weight", scopes=_MODEL,
    description="Vietoris-Rips H0 of the iterates of training after each of four jumps",
)  # fmt: skip
RETRAIN_H1 = Feature("retrain_h1_total", "H1 total of jump and retrain", "weight", scopes=_MODEL)
OF_RETRAIN = (
    RETRAIN_H0,
    RETRAIN_H1,
    Feature(
        "retrain_distance", "distance after jump and retrain", "jump", scopes=_MODEL,
        description="final distance from the checkpoint over the length of the jump; mean over jumps",
    ),
    Feature("retrain_loss", "loss after jump and retrain", _LOSS, Kind.QUALITY, scopes=_MODEL),
    Feature("retrain_loss_jump", "loss after the jump", _LOSS, Kind.QUALITY, scopes=_MODEL),
    *(
        Feature(
            f"{one.name}_null", f"{one.label}, random walk", one.unit, Kind.NULL, null_of=one, scopes=_MODEL,
            description="of random walks from the same jumps with steps of the same lengths",
        )
        for one in (RETRAIN_H0, RETRAIN_H1)
    ),
)  # fmt: skip

DECLARED: Mapping[str, tuple[Feature, ...]] = {
    probe: tuple(replace(feature, about=About.LANDSCAPE) for feature in features)
    for probe, features in (
        (SHARPNESS, OF_SHARPNESS),
        (CURVATURE, OF_CURVATURE),
        (SURFACE, OF_SURFACE),
        (PATHS, OF_PATHS),
        (RETRAIN, OF_RETRAIN),
    )
}
"""Probe -> what it declares."""
