"""Scaling laws of the loss and of any topological feature, each with its interval."""

from __future__ import annotations

from toposcope.scaling.compute import flops_per_token, screen_points
from toposcope.scaling.laws import ScalingFit, fit_chinchilla, fit_kaplan, fit_size_steps
from toposcope.scaling.loss_law import fit_loss_law
from toposcope.scaling.power_law import PowerLaw, fit_power_law, spearman_exact
from toposcope.scaling.transfer import LossToLoss, TwoStage, fit_loss_to_loss, fit_two_stage

__all__ = [
    "LossToLoss",
    "PowerLaw",
    "ScalingFit",
    "TwoStage",
    "fit_chinchilla",
    "fit_kaplan",
    "fit_loss_law",
    "fit_loss_to_loss",
    "fit_power_law",
    "fit_size_steps",
    "fit_two_stage",
    "flops_per_token",
    "screen_points",
    "spearman_exact",
]
