"""The embedding report's phases, which it read off a figure of H1 total persistence of one model."""

from __future__ import annotations

from toposcope.study.published import FixedPhase, FixedPhases

EMBEDDING_PHASES = FixedPhases(
    "the embedding report",
    (
        FixedPhase("collapse", 0, 32, -1),
        FixedPhase("reorganisation", 32, 1000, 0),
        FixedPhase("refinement", 1000, None, 1),
    ),
)
