"""The papers' own conventions of measuring, under the names that `--preset` takes."""

from __future__ import annotations

from toposcope.probes.representations.options import RepresentationOptions
from toposcope.probes.weights.options import WeightOptions
from toposcope.types import Normalization

WEIGHTS = {
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

REPRESENTATIONS = {
    "seed003": RepresentationOptions(preset="seed003", half=True, dimension=False),
}
"""`seed003`: 200 texts of at least 100 characters, last layer, mean over 128 tokens, PCA to 50, H0 and H1 of
all points, perplexity of the first 100 texts at 256 tokens, half precision where the device has it. What the
report has not is added in rows of its own: the Gaussian nulls, and every summary of `toposcope.topology`."""
