"""Counts compute, and screens out points that would distort a scaling law.

Two laboratories got different exponents from the same kind of models because one counted parameters
without the output head, warmed small models up for most of their training, and tuned the optimiser at one
size only (Porian et al. 2024). The count here includes the head, and `screen_points` marks runs that were
still warming up or whose learning rate had not decayed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

WARMUP_SHARE = 0.1
"""A run that spent more than this share of its tokens on warm-up does not show the loss of its size."""

DECAYED_BELOW = 0.2
"""A final learning rate above this share of its peak means that the run stopped in mid-schedule."""


def flops_per_token(
    parameters: int, *, embedding: int = 0, layers: int = 0, width: int = 0, context: int = 0
) -> float:
    """Return training FLOP per token, 6 (N - N_embedding) + 12 layers width context.

    `parameters` counts everything that is multiplied, including an output head that is tied to the token
    embedding, because its matrix product costs compute. `embedding` counts what is only looked up (token
    embedding if untied, position embedding). Leaving the head out makes small models look cheaper than they
    are, and distorts every exponent fitted on compute.

    >>> flops_per_token(124_000_000) == 6 * 124e6
    True
    """
    return 6.0 * (parameters - embedding) + 12.0 * layers * width * context


def screen_points(points: pd.DataFrame) -> pd.DataFrame:
    """Mark the points that must not be used for a compute law.

    Parameters
    ----------
    points : DataFrame
        One row per (run, reading). Columns used where present: `loss`, `tokens`, `warmup_tokens`,
        `learning_rate`, `peak_learning_rate`.

    Returns
    -------
    DataFrame
        The same rows with `status` ("ok" or "excluded") and `reason`.

    Examples
    --------
    >>> frame = pd.DataFrame({"loss": [3.0, 3.1], "tokens": [1e9, 1e7], "warmup_tokens": [1e7, 5e6]})
    >>> list(screen_points(frame).status)
    ['ok', 'excluded']
    """
    out = points.copy()
    reason = pd.Series("", index=out.index)
    if "loss" in out:
        reason[~np.isfinite(out["loss"].astype(float))] = "the loss is not finite"
    if {"tokens", "warmup_tokens"} <= set(out.columns):
        share = out["warmup_tokens"].astype(float) / out["tokens"].astype(float)
        late = (share > WARMUP_SHARE) & (reason == "")
        reason[late] = "warm-up took more than a tenth of the tokens"
    if {"learning_rate", "peak_learning_rate"} <= set(out.columns):
        rate = out["learning_rate"].astype(float) / out["peak_learning_rate"].astype(float)
        undecayed = (rate > DECAYED_BELOW) & (reason == "")
        reason[undecayed] = "read before the learning rate had decayed"
    out["status"] = np.where(reason == "", "ok", "excluded")
    out["reason"] = reason
    return out
