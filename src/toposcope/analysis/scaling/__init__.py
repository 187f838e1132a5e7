"""Scaling laws of the loss and of any topological feature, each with its interval."""

from __future__ import annotations

from toposcope.analysis.scaling.power_law import PowerLaw, fit_power_law, spearman_exact

__all__ = ["PowerLaw", "fit_power_law", "spearman_exact"]
