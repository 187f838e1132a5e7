"""The papers' own conventions of measuring representations, under the names that `--preset` takes."""

from __future__ import annotations

from toposcope.probes.representations.options import RepresentationOptions

PRESETS = {
    "seed003": RepresentationOptions(preset="seed003", half=True, dimension=False),
}
"""`seed003`: 200 texts of at least 100 characters, last layer, mean over 128 tokens, PCA to 50, H0 and H1 of
all points, perplexity of the first 100 texts at 256 tokens, half precision where the device has it. What the
report has not is added in rows of its own: the Gaussian nulls, and every summary of `toposcope.topology`."""
