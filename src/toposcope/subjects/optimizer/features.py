"""The features of the optimiser's state, and their names."""

from __future__ import annotations

from collections.abc import Mapping

from toposcope.core.types import Feature, Kind, Scope, Use

OPTIMIZER = "optimizer"
MOMENTS, MOMENT_PERSISTENCE = "moments", "moment_persistence"

_EVERY = (Scope.MODEL, Scope.ROLE, Scope.MATRIX)


def _number(
    name: str, label: str, unit: str, description: str, leads: Mapping[Use, int] | None = None
) -> Feature:
    return Feature(
        name, label, unit, Kind.BASELINE, description=description, scopes=_EVERY, about=OPTIMIZER,
        leads=leads or {},
    )  # fmt: skip


UPDATE_RMS = _number(
    "optimizer_update_rms", "RMS of the update", "weight",
    "root mean square of the step that the moments make at the stored rate, without weight decay: "
    "lr m_hat / (sqrt(v_hat) + eps) for Adam, lr m for SGD, lr times the orthogonalised m for Muon",
    {Use.CHANGE: 3, Use.END: 3, Use.NORM: 1},
)  # fmt: skip
EFFECTIVE_RATE = _number(
    "optimizer_rate", "effective rate", "weight per gradient",
    "factor between gradient and step at the median second moment: lr / (sqrt(v_hat) + eps) for Adam",
    {Use.END: 4},
)  # fmt: skip
SIGNAL = _number(
    "optimizer_signal", "m² / v", "",
    "mean of m_hat² / v_hat over values with v > 0: 1 where every gradient is the same, "
    "(1 - beta1) / (1 + beta1) where they are noise (after many updates)",
    {Use.CHANGE: 4},
)  # fmt: skip
FLOOR = _number(
    "optimizer_floor", "v at its floor", "share",
    "share of the values with v_hat <= eps², where eps limits the step and not the gradient",
)  # fmt: skip
STALE = _number(
    "optimizer_stale", "stale v", "share",
    "share of the values whose v took up no gradient since the previous checkpoint: it only decayed, or is "
    "unchanged",
)  # fmt: skip
ANGLE = _number(
    "optimizer_angle", "angle of m and the last change", "degrees",
    "angle between m and the previous weights minus these: 0 if the weights moved along -m, 90 for no "
    "relation",
)  # fmt: skip
OF_MOMENTS = (UPDATE_RMS, EFFECTIVE_RATE, SIGNAL, FLOOR, STALE, ANGLE)


def _persistence(stem: str, of: str, place: int) -> tuple[Feature, ...]:
    """Return the neural persistence of one kind of matrix, its null and the difference."""
    value = Feature(
        f"{stem}_persistence", f"neural persistence of {of}", primary=True, scopes=_EVERY, about=OPTIMIZER,
        description=f"mean of 1 - |e| / max over the edges e of the maximum spanning tree of |{of}|",
        leads={Use.CHANGE: place, Use.END: place, Use.NULL: place, Use.WATCH: place},
    )  # fmt: skip
    null = Feature(
        f"{stem}_persistence_shuffled", f"neural persistence of {of}, shuffled", kind=Kind.NULL,
        null_of=value, scopes=_EVERY, about=OPTIMIZER,
        description="the same after a random permutation of the entries",
    )  # fmt: skip
    excess = Feature(
        f"{stem}_persistence_excess", f"neural persistence of {of} − shuffled", primary=True, scopes=_EVERY,
        about=OPTIMIZER, description="that number minus its mean over random permutations",
    )  # fmt: skip
    return value, null, excess


OF_MOMENTUM = _persistence("momentum", "m", 1)
OF_SCALED = _persistence("scaled_momentum", "m/√v", 2)

DECLARED: Mapping[str, tuple[Feature, ...]] = {
    MOMENTS: OF_MOMENTS,
    MOMENT_PERSISTENCE: (*OF_MOMENTUM, *OF_SCALED),
}
"""Probe -> what it declares."""
