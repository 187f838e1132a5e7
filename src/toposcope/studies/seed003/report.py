"""The measurements of the embedding report, and the numbers that it prints."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

TOPOLOGY = ("h1_persistence_entropy", "h1_n_features", "h1_max_persistence", "h1_total_persistence")
SPECTRUM = ("effective_rank", "participation_ratio", "eigenspectrum_decay_alpha")
BESIDE = ("top_eigenvalue", "h0_total_persistence", "h1_entropy_normalized")
"""Features that the report left out: top eigenvalue, H0's total, and entropy over the log of the count."""
FEATURES = (*TOPOLOGY, *SPECTRUM, *BESIDE)


@lru_cache(maxsize=1)
def printed() -> Mapping[str, Any]:
    """Return the numbers that the report prints."""
    return tomllib.loads((resources.files(__package__) / "numbers.toml").read_text("utf-8"))
