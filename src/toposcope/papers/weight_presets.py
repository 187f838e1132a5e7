"""The papers' own conventions of measuring weights, under the names that `--preset` takes."""

from __future__ import annotations

from toposcope.probes.weights.options import WeightOptions
from toposcope.types import Normalization

PRESETS = {
    "seed004": WeightOptions(
        preset="seed004",
        points=200,
        draws=20,
        nulls=0,
        confounds=False,
        thresh=2.0,
        conventions=(Normalization.MATRIX,),
        clouds=("pooled",),
        without=("ln", "emb"),
        split="whole",
    ),
}
"""`seed004`: what the numbers of the weight-space paper used; it drew each cloud once, here 20 times."""
