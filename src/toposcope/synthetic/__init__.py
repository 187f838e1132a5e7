"""Simulated runs whose scaling exponents are known."""

from __future__ import annotations

from toposcope.synthetic._exponents import (
    data_exponent,
    exponent_table,
    fitted_exponents,
    size_exponent,
    time_exponent,
)
from toposcope.synthetic._families import Family, drawn_family, write_families
from toposcope.synthetic.model import Spectrum, converged_loss, draw_problem, flow_losses
from toposcope.synthetic.runs import SyntheticRecipe, SyntheticRun, simulate
from toposcope.synthetic.write import write_family

__all__ = [
    "Family",
    "Spectrum",
    "SyntheticRecipe",
    "SyntheticRun",
    "converged_loss",
    "data_exponent",
    "draw_problem",
    "drawn_family",
    "exponent_table",
    "fitted_exponents",
    "flow_losses",
    "simulate",
    "size_exponent",
    "time_exponent",
    "write_families",
    "write_family",
]
