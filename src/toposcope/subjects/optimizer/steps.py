"""The step that an optimiser makes from what it keeps, by PyTorch's formulas, without weight decay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from toposcope.files.training_state.nouns import ParameterGroup, ParameterState, Setting

LARGEST = "max_exp_avg_sq"
"""AMSGrad divides by this instead of the second moment."""

MUON_LIMIT = 1024
"""Larger matrices (by their smaller side) are not orthogonalised: it takes 15 products of matrices."""
_COEFFICIENTS, _ITERATIONS, _LEAST_NORM = (3.4445, -4.775, 2.0315), 5, 1e-7
"""The defaults of torch.optim.Muon; its groups state them."""


class StepRule(Protocol):
    """How an optimiser makes its step; arrays are float64, and None says that the state does not tell."""

    @property
    def note(self) -> str:
        """What the step leaves out, in words; "" for nothing."""

    def update(self, first: np.ndarray, second: np.ndarray | None) -> np.ndarray | None:
        """Return what is subtracted from the weights."""

    def rate(self, second: float) -> float | None:
        """Return the factor between gradient and step at a second moment."""

    @property
    def floor(self) -> float | None:
        """The second moment at and below which eps limits the step."""


@dataclass(frozen=True, slots=True)
class AdamRule:
    """Adam and AdamW: lr (m / first) / (sqrt(v / second) + epsilon), with the corrections of both moments.

    >>> rule = AdamRule(0.1, 0.0, first=0.5, second=0.25)
    >>> rule.update(np.array([1.0]), np.array([4.0])), rule.rate(4.0)
    (array([0.05]), 0.025)
    """

    lr: float
    epsilon: float
    first: float = 1.0
    second: float = 1.0
    note: str = ""

    def update(self, first: np.ndarray, second: np.ndarray | None) -> np.ndarray | None:
        """Return what is subtracted from the weights; 0 / 0 counts as 0."""
        if second is None:
            return None
        below = np.sqrt(second / self.second) + self.epsilon
        return self.lr * np.divide(first / self.first, below, out=np.zeros_like(first), where=below != 0)

    def rate(self, second: float) -> float | None:
        """Return the factor between gradient and step."""
        below = math.sqrt(second / self.second) + self.epsilon if second >= 0 else math.nan
        return self.lr / below if below else math.nan

    @property
    def floor(self) -> float | None:
        """The second moment whose corrected root is epsilon."""
        return self.epsilon**2 * self.second


@dataclass(frozen=True, slots=True)
class MomentumRule:
    """SGD with momentum: lr m. With Nesterov's momentum the step needs the gradient, which is not kept."""

    lr: float
    nesterov: bool = False
    note: str = ""
    floor: float | None = None

    def update(self, first: np.ndarray, second: np.ndarray | None) -> np.ndarray | None:
        """Return what is subtracted from the weights."""
        return None if self.nesterov else self.lr * first

    def rate(self, second: float) -> float | None:
        """Return the factor between gradient and step."""
        return self.lr


@dataclass(frozen=True, slots=True)
class MuonRule:
    """Muon: lr times the first moment with its singular values near 1, made of a whole tensor by `matrix`."""

    lr: float
    coefficients: tuple[float, float, float] = _COEFFICIENTS
    iterations: int = _ITERATIONS
    least: float = _LEAST_NORM
    adjusted: str = "original"
    note: str = ""
    floor: float | None = None

    def update(self, first: np.ndarray, second: np.ndarray | None) -> np.ndarray | None:
        """Return None: single rows do not determine it."""
        return None

    def rate(self, second: float) -> float | None:
        """Return None: the step is no multiple of the gradient."""
        return None

    def matrix(self, first: np.ndarray) -> np.ndarray | None:
        """Return what is subtracted from a whole matrix, as torch.optim.Muon computes it, in bfloat16.

        Reference: Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024).
        """
        if first.ndim != 2 or min(first.shape) > MUON_LIMIT:
            return None
        try:
            import torch
        except ImportError:  # without PyTorch nothing has its rounding to bfloat16
            return None
        a, b, c = self.coefficients
        tall = first.shape[0] > first.shape[1]
        update = torch.from_numpy(np.ascontiguousarray(first, np.float32)).bfloat16()
        update = update.T if tall else update
        update = update / update.norm().clamp(min=self.least)
        for _ in range(self.iterations):
            gram = update @ update.T
            update = torch.addmm(update, torch.addmm(gram, gram, gram, beta=b, alpha=c), update, beta=a)
        rows, columns = first.shape
        ratio = 0.2 * math.sqrt(max(rows, columns)) if self.adjusted == "match_rms_adamw" else (
            math.sqrt(max(1.0, rows / columns))
        )  # fmt: skip
        return self.lr * ratio * (update.T if tall else update).float().numpy()


@dataclass(frozen=True, slots=True)
class FactoredRule:
    """Adafactor of PyTorch: it keeps no first moment, so only the rate is known, before clipping.

    The step is rate(v) g, divided by max(1, RMS(g / sqrt(v)) / d).
    """

    size: float
    least: float
    note: str = ""

    def update(self, first: np.ndarray, second: np.ndarray | None) -> np.ndarray | None:
        """Return None: the step needs the gradient."""
        return None

    def rate(self, second: float) -> float | None:
        """Return the factor between gradient and step."""
        return self.size / math.sqrt(max(second, self.least**2))

    @property
    def floor(self) -> float | None:
        """The least second moment."""
        return self.least**2


@dataclass(frozen=True, slots=True)
class HeldRule:
    """Adafactor of transformers with beta1: its first moment is the step itself, with the rate in it."""

    note: str = ""
    floor: float | None = None

    def update(self, first: np.ndarray, second: np.ndarray | None) -> np.ndarray | None:
        """Return what is subtracted from the weights."""
        return first

    def rate(self, second: float) -> float | None:
        """Return None: the rate is not kept."""
        return None


def rule_of(state: ParameterState, group: ParameterGroup | None, weight_rms: float) -> StepRule | None:
    """Return the rule of the optimiser that kept a state, by its fields and settings; None if unknown.

    `weight_rms` is the root mean square of the parameter, which Adafactor multiplies its rate by.
    """
    if group is None or group.rate is None:
        return None
    settings = group.settings
    if state.further.keys() >= {"exp_avg_sq_row", "exp_avg_sq_col"}:
        return HeldRule() if state.first is not None else None
    if state.further.keys() >= {"row_var", "col_var"}:
        return _factored(state, group.rate, settings, weight_rms)
    if "ns_steps" in settings:
        return _muon(group.rate, settings)
    if state.second is None:
        return _momentum(state, group.rate, settings)
    return _adam(state, group)


def _adam(state: ParameterState, group: ParameterGroup) -> AdamRule | None:
    settings = group.settings
    # NAdam and RAdam keep the same moments, and make another step of them
    other = "mu_product" in state.others or (
        "decoupled_weight_decay" in settings and "amsgrad" not in settings
    )
    if other or group.betas is None or group.rate is None or state.first is None:
        return None
    epsilon = 1e-8 if group.epsilon is None else group.epsilon
    if settings.get("bias_correction", settings.get("correct_bias", 1.0)) == 0.0:
        return AdamRule(group.rate, epsilon)
    if not state.updates or state.updates < 1:
        return None
    first, second = (1 - beta**state.updates for beta in group.betas)
    return AdamRule(group.rate, epsilon, first, second) if first > 0 and second > 0 else None


def _momentum(state: ParameterState, rate: float, settings: Mapping[str, Setting]) -> MomentumRule | None:
    if state.first is None or "dampening" not in settings:
        return None
    ahead = bool(settings.get("nesterov", 0.0))
    note = "the step of Nesterov's momentum needs the gradient, which is not kept" if ahead else ""
    return MomentumRule(rate, ahead, note)


def _muon(rate: float, settings: Mapping[str, Setting]) -> MuonRule:
    def number(name: str, default: float) -> float:
        value = settings.get(name)
        return value if isinstance(value, float) else default

    stated = settings.get("ns_coefficients")
    a, b, c = stated if isinstance(stated, tuple) and len(stated) == 3 else _COEFFICIENTS
    how = settings.get("adjust_lr_fn")
    ahead = bool(settings.get("nesterov", 0.0))
    return MuonRule(
        rate, (a, b, c), min(99, int(number("ns_steps", _ITERATIONS))), number("eps", _LEAST_NORM),
        how if isinstance(how, str) else "original",
        "of m, without Nesterov's part, which needs the gradient" if ahead else "",
    )  # fmt: skip


def _factored(
    state: ParameterState, rate: float, settings: Mapping[str, Setting], weight_rms: float
) -> FactoredRule | None:
    if not state.updates or state.updates < 1:
        return None
    stated = settings.get("eps")
    least, relative = stated if isinstance(stated, tuple) and len(stated) == 2 else (math.nan, 1e-3)
    if math.isnan(least):  # torch's None: the epsilon of the parameter's type
        least = float(np.finfo(np.float32).eps)
    size = max(relative, weight_rms) * min(rate, 1 / math.sqrt(state.updates))
    return FactoredRule(size, least)
